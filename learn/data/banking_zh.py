"""What the 77 intents of BANKING77 are called in Chinese; the columns are those of `clinc_en`."""

TABLE = """
[delivery] 办卡与领卡
card_arrival | 了解卡为何还没到 | 订了卡却没收到
card_delivery_estimate | 了解寄卡要多久 | 一般的寄卡时间
order_physical_card | 订购实体卡 | 怎样得到实体卡
getting_spare_card | 再办一张附加卡 | 同一账户的第二张卡
getting_virtual_card | 办理虚拟卡 | 怎样得到只在应用里的卡
get_disposable_virtual_card | 办理一次性虚拟卡 | 只用一次的虚拟卡
disposable_card_limits | 了解一次性卡的限制 | 一次性卡的数量和额度
card_about_to_expire | 更换快到期的卡 | 卡快到期或已到期
visa_or_mastercard | 选择Visa或万事达卡 | 能办哪种卡组织的卡

[use] 卡的设置与使用
activate_my_card | 激活卡 | 让新卡可用
card_linking | 把卡绑定到应用 | 把已有的卡加入应用
get_physical_card | 找到自己的PIN码 | 卡的PIN在哪里看
change_pin | 修改PIN码 | 怎样、在哪里改PIN
card_acceptance | 了解哪里可以用卡 | 接受此卡的商店
apple_pay_or_google_pay | 使用Apple Pay或Google Pay | 用它们付款或充值

[trouble] 卡故障与遗失
card_not_working | 解决卡不能用的问题 | 卡普遍用不了
contactless_not_working | 解决感应支付失败 | 感应支付不成功
virtual_card_not_working | 解决虚拟卡不能用 | 虚拟卡被拒
lost_or_stolen_card | 挂失卡 | 卡不见了
compromised_card | 报告卡信息被盗用 | 别人在用这张卡或卡号
lost_or_stolen_phone | 报告手机丢失或被盗 | 装有应用的手机不见了
card_swallowed | 取回被取款机吞的卡 | 机器吞卡
pin_blocked | 解锁PIN码 | PIN输错太多次
passcode_forgotten | 重设忘记的应用密码 | 应用的登录密码
declined_card_payment | 了解刷卡为何被拒 | 刷卡付款被拒绝

[cash] 取款机与取现
atm_support | 了解哪些取款机可用 | 接受此卡的机器
cash_withdrawal_charge | 询问取现手续费 | 取现要多少费用
cash_withdrawal_not_recognised | 报告不是自己做的取现 | 不明取现
declined_cash_withdrawal | 了解取现为何被拒 | 机器没有出钱
pending_cash_withdrawal | 询问处理中的取现 | 取现仍显示处理中
wrong_amount_of_cash_received | 报告取款机给的钱数不对 | 现金多了或少了
wrong_exchange_rate_for_cash_withdrawal | 质疑取现的汇率 | 境外取现汇率不对

[topup] 账户充值
automatic_top_up | 设置自动充值 | 不用手动的充值
pending_top_up | 询问处理中的充值 | 充值还没到账
top_up_by_bank_transfer_charge | 询问转账充值的费用 | 用转账充值的手续费
top_up_by_card_charge | 询问用卡充值的费用 | 用卡充值的手续费
top_up_by_cash_or_cheque | 用现金或支票充值 | 现金和支票存入账户
top_up_failed | 了解充值为何失败 | 充值被拒
top_up_limits | 了解充值限额 | 能充多少、多少次
top_up_reverted | 了解充值为何被退回 | 充值被撤回
topping_up_by_card | 用卡充值 | 怎样用卡加钱
verify_top_up | 验证充值 | 充值的验证码和核对
transfer_into_account | 用转账把钱存入账户 | 通过银行转账加钱
balance_not_updated_after_bank_transfer | 了解转账后余额为何没变 | 转账迟迟未到
balance_not_updated_after_cheque_or_cash_deposit | 了解存款后余额为何没变 | 存款迟迟未到

[transfers] 转账与收款
cancel_transfer | 取消转账 | 撤回已做的转账
declined_transfer | 了解转账为何被拒 | 转账被拒绝
failed_transfer | 了解转账为何失败 | 转账出错
pending_transfer | 询问处理中的转账 | 转账仍显示处理中
transfer_fee_charged | 询问转账手续费 | 转账被收了费
transfer_not_received_by_recipient | 了解收款人为何没收到钱 | 钱没有到对方
transfer_timing | 了解转账要多久 | 转账的速度
beneficiary_not_allowed | 了解收款人为何不被允许 | 收款人被拒
receiving_money | 了解如何收款 | 工资和别人打来的钱

[charges] 付款、退款与扣费
card_payment_fee_charged | 询问刷卡手续费 | 刷卡被多收费
card_payment_not_recognised | 报告不是自己做的刷卡付款 | 不明刷卡付款
card_payment_wrong_exchange_rate | 质疑刷卡付款的汇率 | 购物汇率不对
direct_debit_payment_not_recognised | 报告不明的自动扣款 | 不认识的自动扣款
extra_charge_on_statement | 询问账单上的小额多收费 | 说不清的一笔收费
pending_card_payment | 询问处理中的刷卡付款 | 刷卡付款显示处理中
Refund_not_showing_up | 了解退款为何没到 | 退款还没来
request_refund | 要求退款 | 退回购物的钱
reverted_card_payment? | 了解刷卡付款为何被退回 | 付款被撤回
transaction_charged_twice | 报告重复扣款 | 同一笔付款扣了两次

[currencies] 货币与兑换
exchange_charge | 询问货币兑换费用 | 兑换要多少费用
exchange_rate | 询问汇率 | 汇率如何定、是多少
exchange_via_app | 在应用里兑换货币 | 怎样兑换
fiat_currency_support | 了解可以持有哪些货币 | 账户的货币
supported_cards_and_currencies | 询问充值接受哪些卡和货币 | 接受的卡和货币
country_support | 了解服务在哪些国家可用 | 覆盖的国家

[identity] 账户与身份
age_limit | 询问最低年龄 | 多大可以开户
edit_personal_details | 修改个人资料 | 姓名、地址等
terminate_account | 注销账户 | 结束与银行的关系
unable_to_verify_identity | 解决身份验证失败 | 身份验证不通过
verify_my_identity | 验证自己的身份 | 身份验证怎么做
verify_source_of_funds | 了解资金从哪里来 | 账户里钱的来源
why_verify_identity | 询问为何要验证身份 | 验证身份的理由
"""
