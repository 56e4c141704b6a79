"""What the 77 intents of BANKING77 are called in English; the columns are those of `clinc_en`."""

TABLE = """
[delivery] getting a card
card_arrival | find out why a card has not arrived | A card that was ordered and has not come
card_delivery_estimate | find out how long card delivery takes | Delivery times of cards in general
order_physical_card | order a physical card | How to get a card of plastic
getting_spare_card | get an additional card | A second card for the same account
getting_virtual_card | get a virtual card | How to get a card that exists in the app only
get_disposable_virtual_card | get a disposable virtual card | Virtual cards for one payment
disposable_card_limits | learn the limits of disposable cards \
| How many and how much with disposable cards
card_about_to_expire | replace a card that expires | A card near or past its expiry date
visa_or_mastercard | choose between Visa and Mastercard | Which card brand can be had

[use] setting up and using a card
activate_my_card | activate a card | Making a new card work
card_linking | link a card to the app | Adding a card that is there to the app
get_physical_card | find their PIN | Where the PIN of a card is to be found
change_pin | change a PIN | How and where to set another PIN
card_acceptance | find out where the card is accepted | Shops that take the card
apple_pay_or_google_pay | use Apple Pay or Google Pay | Paying or topping up with these

[trouble] cards that don't work or are lost
card_not_working | fix a card that doesn't work | A card that fails in general
contactless_not_working | fix contactless payment | Contactless payments that fail
virtual_card_not_working | fix a virtual card | A virtual card that is refused
lost_or_stolen_card | report a lost or stolen card | A card that is gone
compromised_card | report that card details were misused | Someone else uses the card or its details
lost_or_stolen_phone | report a lost or stolen phone | A phone with the app that is gone
card_swallowed | get a card back from a cash machine | A machine kept the card
pin_blocked | unblock a PIN | Too many wrong PINs
passcode_forgotten | reset a forgotten passcode | The passcode of the app
declined_card_payment | find out why a card payment was declined \
| A payment by card that was refused

[cash] cash machines and withdrawals
atm_support | find out which cash machines work | Machines that take the card
cash_withdrawal_charge | ask about a fee for taking out cash | What withdrawals cost
cash_withdrawal_not_recognised | report a cash withdrawal that they didn't make \
| Unknown withdrawals
declined_cash_withdrawal | find out why a withdrawal was declined | A machine that gave no money
pending_cash_withdrawal | ask about a pending cash withdrawal \
| Withdrawals that still show as pending
wrong_amount_of_cash_received | report that a machine paid out a wrong sum \
| More or less cash than asked for
wrong_exchange_rate_for_cash_withdrawal | dispute the rate of a withdrawal \
| Wrong rate for cash abroad

[topup] topping up the account
automatic_top_up | set up automatic top-up | Topping up without doing it by hand
pending_top_up | ask about a pending top-up | A top-up that has not gone through yet
top_up_by_bank_transfer_charge | ask about fees for topping up by transfer \
| Cost of top-ups by transfer
top_up_by_card_charge | ask about fees for topping up by card | Cost of top-ups by card
top_up_by_cash_or_cheque | top up with cash or a cheque | Cash and cheques into the account
top_up_failed | find out why a top-up failed | A top-up that was refused
top_up_limits | learn the limits of topping up | How much and how often may be topped up
top_up_reverted | find out why a top-up was reverted | A top-up that was taken back
topping_up_by_card | top up with a card | How to add money with a card
verify_top_up | verify a top-up | Codes and checks of a top-up
transfer_into_account | move money into the account by transfer | Adding money by bank transfer
balance_not_updated_after_bank_transfer | find out why a transfer is not in the balance \
| Late transfers
balance_not_updated_after_cheque_or_cash_deposit | find out why a deposit doesn't show \
| Late deposits

[transfers] sending and receiving money
cancel_transfer | cancel a transfer | Taking back a transfer that was made
declined_transfer | find out why a transfer was declined | A transfer that was refused
failed_transfer | find out why a transfer failed | A transfer that went wrong
pending_transfer | ask about a pending transfer | A transfer that still shows as pending
transfer_fee_charged | ask about a fee for a transfer | A transfer that cost something
transfer_not_received_by_recipient | find out why a recipient has no money yet \
| Money that didn't arrive
transfer_timing | find out how long transfers take | How fast transfers are
beneficiary_not_allowed | find out why a beneficiary isn't allowed | A recipient who is refused
receiving_money | learn how to receive money | Salary and money from others

[charges] payments, refunds and charges
card_payment_fee_charged | ask about a fee for a card payment | Card payments that cost extra
card_payment_not_recognised | report a card payment that they didn't make | Unknown card payments
card_payment_wrong_exchange_rate | dispute the rate of a card payment | Wrong rate for a purchase
direct_debit_payment_not_recognised | report a direct debit they don't know | Unknown direct debits
extra_charge_on_statement | ask about a small extra charge on the statement \
| A charge they can't place
pending_card_payment | ask about a pending card payment | Card payments that show as pending
Refund_not_showing_up | find out why a refund doesn't show | A refund that hasn't come
request_refund | get a refund | Money back for a purchase
reverted_card_payment? | find out why a card payment was reverted | A payment that went back
transaction_charged_twice | report a payment that was charged twice | The same payment two times

[currencies] currencies and exchange
exchange_charge | ask about fees for exchanging currency | What exchanging costs
exchange_rate | ask about exchange rates | How rates are made and what they are
exchange_via_app | exchange currencies in the app | How to exchange money
fiat_currency_support | find out which currencies can be held | Currencies of the account
supported_cards_and_currencies | ask which cards and currencies top-ups take \
| Cards and currencies accepted
country_support | find out in which countries the service works | Countries covered

[identity] account and identity
age_limit | ask about the minimum age | How old one must be for an account
edit_personal_details | change personal details | Name, address and the like
terminate_account | close the account | Ending the relation with the bank
unable_to_verify_identity | solve a failed identity check | An identity check that fails
verify_my_identity | verify their identity | How the identity check works
verify_source_of_funds | find out where funds came from | Source of the money in the account
why_verify_identity | ask why an identity check is needed | Reasons for the identity check
"""
