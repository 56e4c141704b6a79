"""What the 150 intents of CLINC150 are called in English.

`[area] name of the area`, then `intent | what the user wants to do | what the intent covers`. The
second column follows "wants to".
"""

TABLE = """
[banking] bank accounts and bills
transfer | transfer money between accounts | Moving money from one account to another
transactions | see recent transactions | Listing purchases and other movements of an account
balance | check an account balance | How much money there is in a bank account
freeze_account | freeze an account | Putting a hold on an account so that nothing can be taken
pay_bill | pay a bill | Paying a bill now
bill_balance | find out how much a bill is | The amount owed on a bill
bill_due | find out when a bill is due | The date by which a bill has to be paid
interest_rate | find out an interest rate | The interest rate of an account or card
routing | get a bank's routing number | The routing number of a bank or an account
min_payment | find out the minimum payment on a bill | The least that has to be paid on a bill
order_checks | order a checkbook | Ordering more checks or a new checkbook
pin_change | change a PIN | Changing or resetting the PIN of an account or card
report_fraud | report fraudulent activity \
| Telling the bank of charges or activity that look like fraud
account_blocked | find out why an account is blocked \
| An account that is blocked or on hold, and why
spending_history | see how much was spent on something | How much was spent on a kind of thing

[credit] credit cards
credit_score | find out a credit score | What the credit score is
report_lost_card | report a lost or stolen card | A card that was lost or stolen
credit_limit | find out a credit limit | How high the limit of a card is
rewards_balance | check how many rewards points there are | Points or rewards collected on a card
new_card | apply for a new credit card | Getting or applying for a new card
application_status | check on a credit card application | How far a card application has got
card_declined | find out why a card was declined | A card that was refused when paying
international_fees | find out about fees for using a card abroad | Card fees in foreign countries
apr | find out the APR of a card | The annual percentage rate of a credit card
redeem_rewards | redeem rewards points | Using rewards points or finding out how to use them
credit_limit_change | raise or change a credit limit | Changing the limit of a credit card
damaged_card | report a damaged card | A card that is broken, bent or scratched
replacement_card_duration | find out how long a replacement card takes | When a new card arrives
improve_credit_score | learn how to improve a credit score | What makes a credit score better
expiration_date | find out when a card expires | The expiry date of a card

[kitchen] food and restaurants
recipe | get a recipe | How to cook or bake a dish
restaurant_reviews | hear reviews of a restaurant | What others say about a restaurant
calories | find out how many calories something has | The calories of a food
nutrition_info | get the nutrition facts of a food \
| Vitamins, fat, sugar and the like, or health value
restaurant_suggestion | get a suggestion for a restaurant | Where to go out to eat
ingredients_list | find out what ingredients a dish needs | What is in a dish or goes into it
ingredient_substitution | swap one ingredient for another | Whether an ingredient can be replaced
cook_time | find out how long something has to cook | Cooking or baking time
food_last | find out how long a food keeps | Whether food is still good and how long it lasts
meal_suggestion | get an idea of what to cook or eat | Ideas for a meal
restaurant_reservation | book a table at a restaurant | Making a new restaurant reservation
confirm_reservation | confirm a restaurant reservation | Making sure that a reservation exists
how_busy | find out how busy a restaurant is | How crowded a place is or how long the wait is
cancel_reservation | cancel a restaurant reservation | Calling off a table that was booked
accept_reservations | find out whether a restaurant takes reservations \
| Whether tables can be booked there

[home] lists, music and the house
shopping_list | hear what is on the shopping list | Reading the shopping list
shopping_list_update | add to or remove from the shopping list | Changing the shopping list
next_song | skip to the next song | Playing the next track
play_music | play some music | Playing a song, artist or kind of music
update_playlist | add a song to a playlist | Putting music on a playlist
todo_list | hear what is on the to-do list | Reading the to-do list
todo_list_update | add to or remove from the to-do list | Changing or clearing the to-do list
calendar | see what is on the calendar | Events on the calendar on some day
calendar_update | add or remove a calendar event | Changing the calendar
what_song | find out which song is playing | The name or artist of the music that plays
order | order something to buy | Buying or reordering goods
order_status | find out where an order is | Where a package is or when it arrives
reminder | hear what reminders there are | Reading existing reminders
reminder_update | set a reminder | Being reminded of something later
smart_home | control a device in the house | Lights, heating, doors and appliances

[auto] cars and getting around
traffic | find out about the traffic | How the traffic is on the way
directions | get directions to a place | How to get somewhere
gas | find out how much fuel is left | The fuel in the tank
gas_type | find out which fuel a car takes | What kind of fuel a car needs
distance | find out how far away a place is | How far or how long it is to a place
current_location | find out where they are right now | The user's present location
mpg | find out a car's gas mileage | Miles per gallon of a car
oil_change_when | find out when an oil change is due | When the oil has to be changed
oil_change_how | learn how to change the oil | Steps of an oil change
jump_start | learn how to jump start a car | Starting a car with a dead battery
uber | get a ride | Ordering a car with a driver
schedule_maintenance | book car maintenance | An appointment for service or repair of a car
last_maintenance | find out when the car was last serviced | The date of the last check-up
tire_pressure | find out the air pressure of tires | How much air is in the tires
tire_change | get a tire changed | Changing a tire, or learning how

[travel] trips
book_flight | book a flight | Finding or buying plane tickets
book_hotel | book a hotel | Finding or booking a room
car_rental | rent a car | Finding or booking a rental car
travel_suggestion | get ideas of what to see or do on a trip | Sights and activities at a place
travel_alert | hear travel warnings for a place | Whether it is safe to travel somewhere
travel_notification | tell the bank about a trip \
| Letting the bank know of travel so that cards work
carry_on | learn the carry-on rules of an airline | What may be taken into the cabin
timezone | find out the time zone of a place | Which time zone a place is in
vaccines | find out which vaccines a trip needs | Shots needed before travelling
translate | translate something | How to say something in another language
flight_status | find out the status of a flight | Boarding, landing or delay of a flight
international_visa | find out whether a visa is needed | Visas for a country
lost_luggage | find lost luggage | Baggage that did not arrive
plug_type | find out which plug a country uses | Sockets and adapters abroad
exchange_rate | find out an exchange rate | What one currency is worth in another

[utility] small tools
time | find out what time it is | The time, here or elsewhere
alarm | set an alarm | An alarm at some time
share_location | share their location with someone | Sending one's location to a person
find_phone | find a phone | A phone that was mislaid
weather | find out the weather | Weather and temperature at a place
text | send a text message | Writing or sending a text message
spelling | find out how a word is spelled | The spelling of a word
make_call | call someone | Phoning a person
timer | set or check a timer | Counting down minutes
date | find out the date | What day it is, was or will be
calculator | calculate something | Sums, percentages, roots
measurement_conversion | convert a measurement | From one unit to another
flip_coin | flip a coin | Heads or tails
roll_dice | roll dice | A throw of dice
definition | find out what a word means | The meaning of a word

[work] work and pay
direct_deposit | set up direct deposit | Having pay sent straight to a bank account
pto_request | request time off | Asking for days of vacation
taxes | find out about taxes to pay | How much tax is owed
payday | find out when payday is | When pay arrives
w2 | get a W-2 form | The wage statement for taxes
pto_balance | find out how many days off are left | Vacation days still available
pto_request_status | check on a request for time off | Whether vacation was approved
next_holiday | find out when the next holiday is | The next public holiday
insurance | ask about their insurance plan | What the present insurance plan is and covers
insurance_change | change their insurance plan | Switching or getting another insurance
schedule_meeting | schedule a meeting | Setting up a meeting or booking a meeting room
pto_used | find out how many days off were taken | Vacation days already used
meeting_schedule | see which meetings there are | Meetings that are already planned
rollover_401k | roll over a 401k | Moving a retirement plan to another one
income | find out how much they earn | The user's income

[talk] small talk
greeting | say hello | A greeting
goodbye | say goodbye | A farewell
tell_joke | hear a joke | A joke
where_are_you_from | ask where the assistant comes from | The assistant's origin
how_old_are_you | ask how old the assistant is | The assistant's age
what_is_your_name | ask the assistant's name | What the assistant is called
who_made_you | ask who made the assistant | The maker of the assistant
thank_you | say thank you | Thanks
what_can_i_ask_you | learn what the assistant can do | Topics and abilities of the assistant
what_are_your_hobbies | ask about the assistant's hobbies | What the assistant likes to do
do_you_have_pets | ask whether the assistant has pets | The assistant's animals
are_you_a_bot | ask whether this is a machine or a person | Whether a human or a program answers
meaning_of_life | ask about the meaning of life | Why we are here
who_do_you_work_for | ask whom the assistant works for | The assistant's employer or boss
fun_fact | hear a fun fact | Trivia about something

[settings] settings of the assistant
change_ai_name | give the assistant another name | Renaming the assistant
change_user_name | be called by another name \
| Changing the name that the assistant uses for the user
cancel | cancel what was just asked | Stopping or taking back a command
user_name | hear which name the assistant has for them | The user's name as the assistant knows it
reset_settings | reset the settings | Back to factory settings
whisper_mode | have the assistant whisper | Speaking in a whisper
repeat | hear the last answer again | Repeating what was said
no | say no | A refusal or denial
yes | say yes | An agreement or confirmation
maybe | say that they are not sure | Neither yes nor no
change_language | change the assistant's language | Which language the assistant speaks
change_accent | change the assistant's accent | Accent or voice of the assistant
change_volume | change the volume | Louder or quieter
change_speed | change how fast the assistant speaks | Faster or slower speech
sync_device | connect or disconnect a phone | Pairing the assistant with a device
"""
