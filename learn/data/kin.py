"""Intents and areas that one message may be said to have beside its own.

A source gives every message one intent. That it has no other is only our inference, and where one
intent contains another, or asks for nearly the same, it is wrong: whoever wants a disposable
virtual card wants a virtual card. Nothing that is kin is used as a sure negative.
"""

from __future__ import annotations

from collections.abc import Mapping

KIN: Mapping[str, str] = {
    "banking77": """
card_not_working contactless_not_working virtual_card_not_working declined_card_payment
card_not_working declined_cash_withdrawal card_swallowed
getting_virtual_card get_disposable_virtual_card
get_disposable_virtual_card disposable_card_limits
card_arrival card_delivery_estimate
order_physical_card getting_spare_card
activate_my_card card_linking
compromised_card card_payment_not_recognised cash_withdrawal_not_recognised
compromised_card direct_debit_payment_not_recognised lost_or_stolen_card
pin_blocked change_pin
extra_charge_on_statement cash_withdrawal_charge card_payment_fee_charged transaction_charged_twice
exchange_rate card_payment_wrong_exchange_rate wrong_exchange_rate_for_cash_withdrawal
exchange_rate exchange_charge
card_payment_wrong_exchange_rate exchange_charge wrong_exchange_rate_for_cash_withdrawal
exchange_via_app fiat_currency_support exchange_charge
supported_cards_and_currencies fiat_currency_support card_acceptance topping_up_by_card
supported_cards_and_currencies visa_or_mastercard
card_acceptance country_support
top_up_failed top_up_reverted pending_top_up
topping_up_by_card top_up_by_card_charge
top_up_by_bank_transfer_charge transfer_fee_charged transfer_into_account
transfer_into_account receiving_money
balance_not_updated_after_bank_transfer transfer_not_received_by_recipient pending_transfer
balance_not_updated_after_bank_transfer transfer_timing transfer_into_account pending_top_up
balance_not_updated_after_cheque_or_cash_deposit top_up_by_cash_or_cheque pending_top_up
failed_transfer declined_transfer beneficiary_not_allowed
declined_transfer beneficiary_not_allowed
pending_transfer transfer_timing transfer_not_received_by_recipient
transfer_not_received_by_recipient transfer_timing
request_refund Refund_not_showing_up
reverted_card_payment? declined_card_payment Refund_not_showing_up pending_card_payment
verify_my_identity unable_to_verify_identity why_verify_identity
""",
    "clinc150": """
report_fraud report_lost_card freeze_account
account_blocked freeze_account card_declined
bill_balance min_payment bill_due
transactions spending_history
damaged_card replacement_card_duration
credit_limit credit_limit_change
credit_score improve_credit_score
interest_rate apr
rewards_balance redeem_rewards
nutrition_info calories
recipe ingredients_list cook_time meal_suggestion
restaurant_suggestion restaurant_reviews meal_suggestion
restaurant_reservation accept_reservations confirm_reservation cancel_reservation
play_music next_song
shopping_list shopping_list_update
todo_list todo_list_update
calendar calendar_update schedule_meeting meeting_schedule
calendar_update schedule_meeting
reminder reminder_update
reminder_update alarm todo_list_update
order order_status shopping_list_update
directions distance traffic
oil_change_when last_maintenance schedule_maintenance oil_change_how
schedule_maintenance tire_change oil_change_how
time timezone date
alarm timer
calculator measurement_conversion exchange_rate
pto_request pto_request_status
pto_balance pto_used
taxes w2 income
payday income direct_deposit
insurance insurance_change
what_is_your_name change_ai_name
user_name change_user_name
who_made_you who_do_you_work_for where_are_you_from
cancel cancel_reservation no
change_language change_accent translate
tell_joke fun_fact
""",
}
"""By source: an intent, and those that are kin to it, which goes both ways."""

ALSO: Mapping[str, str] = {
    "banking77": """
activate_my_card delivery
card_linking delivery
get_physical_card delivery
apple_pay_or_google_pay topup
card_about_to_expire use
visa_or_mastercard use
disposable_card_limits use
card_not_working use
contactless_not_working use
virtual_card_not_working use
pin_blocked use
lost_or_stolen_card charges
compromised_card charges
card_swallowed cash
declined_card_payment charges
atm_support use
cash_withdrawal_charge charges
cash_withdrawal_not_recognised trouble charges
declined_cash_withdrawal trouble
wrong_exchange_rate_for_cash_withdrawal currencies
top_up_by_bank_transfer_charge charges transfers
top_up_by_card_charge charges
top_up_by_cash_or_cheque cash
topping_up_by_card use
transfer_into_account transfers
balance_not_updated_after_bank_transfer transfers
balance_not_updated_after_cheque_or_cash_deposit cash
transfer_fee_charged charges
receiving_money topup currencies
card_payment_not_recognised trouble
card_payment_wrong_exchange_rate currencies
exchange_charge charges
supported_cards_and_currencies topup use
country_support use
verify_top_up identity
verify_source_of_funds topup
passcode_forgotten identity
""",
    "clinc150": """
pin_change credit
report_fraud credit
interest_rate credit
account_blocked credit
spending_history credit
transactions credit
card_declined banking
new_card banking
damaged_card banking
report_lost_card banking
international_fees travel banking
travel_notification banking credit
exchange_rate banking utility
direct_deposit banking
restaurant_suggestion travel
restaurant_reviews travel
calendar work utility
calendar_update work utility
schedule_meeting home
meeting_schedule home
reminder utility
reminder_update utility
alarm home
timer kitchen
measurement_conversion kitchen
uber travel
car_rental auto
directions travel
distance travel
current_location travel utility
share_location auto
timezone utility
time travel
translate utility
weather travel
change_volume home
sync_device utility
cancel talk
yes talk
no talk
maybe talk
repeat talk
user_name talk
change_user_name talk
change_ai_name talk
what_is_your_name settings
what_can_i_ask_you settings
calories utility
""",
}
"""By source: an intent, and the areas beside its own under which a reader may look for it."""


def pairs(source: str) -> dict[str, frozenset[str]]:
    """The kin of each intent of `source` that has any."""
    found: dict[str, set[str]] = {}
    for first, *others in _lines(KIN[source]):
        for other in others:
            found.setdefault(first, set()).add(other)
            found.setdefault(other, set()).add(first)
    return {name: frozenset(kin) for name, kin in found.items()}


def areas(source: str) -> dict[str, frozenset[str]]:
    """The areas of each intent of `source` beside its own, where there are any."""
    return {name: frozenset(also) for name, *also in _lines(ALSO[source])}


def _lines(table: str) -> list[list[str]]:
    return [line.split() for line in table.strip().splitlines()]
