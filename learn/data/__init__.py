"""Training data: public messages with intents, turned into questions of six families.

`python -m readoff.learn.data` writes train, valid and test files of labelled decisions. The public
data is read from where the user has it; none of it is kept here.
"""
