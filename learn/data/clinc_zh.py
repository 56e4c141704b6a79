"""What the 150 intents of CLINC150 are called in Chinese; the columns are those of `clinc_en`.

The second column follows "想" (wants to).
"""

TABLE = """
[banking] 银行账户与账单
transfer | 在账户之间转账 | 把钱从一个账户转到另一个账户
transactions | 查看最近的交易 | 列出账户的消费和其他变动
balance | 查询账户余额 | 银行账户里有多少钱
freeze_account | 冻结账户 | 暂停账户的一切支出
pay_bill | 缴纳账单 | 现在支付账单
bill_balance | 了解账单金额 | 账单要付多少钱
bill_due | 了解账单的到期日 | 账单最晚哪天支付
interest_rate | 了解利率 | 账户或卡的利率
routing | 获取银行路由号码 | 银行或账户的路由号码
min_payment | 了解最低还款额 | 账单最少要付多少
order_checks | 订购支票簿 | 订购更多支票
pin_change | 修改密码(PIN) | 修改或重设账户或卡的PIN
report_fraud | 报告欺诈行为 | 向银行报告可疑的交易
account_blocked | 了解账户为何被锁 | 账户被锁定或冻结的原因
spending_history | 查看某类支出 | 在某类东西上花了多少钱

[credit] 信用卡
credit_score | 查询信用评分 | 信用评分是多少
report_lost_card | 挂失银行卡 | 卡丢失或被盗
credit_limit | 查询信用额度 | 卡的额度是多少
rewards_balance | 查询积分 | 卡上累积的积分
new_card | 申请新信用卡 | 办理或申请新卡
application_status | 查询信用卡申请进度 | 申请进行到哪一步
card_declined | 了解卡为何被拒 | 付款时卡被拒绝
international_fees | 了解境外用卡费用 | 在国外刷卡的手续费
apr | 了解卡的年利率 | 信用卡的年化利率
redeem_rewards | 兑换积分 | 使用积分或了解如何使用
credit_limit_change | 提高或调整信用额度 | 更改信用卡额度
damaged_card | 报告卡片损坏 | 卡断裂、弯曲或划伤
replacement_card_duration | 了解补卡要多久 | 新卡何时寄到
improve_credit_score | 了解如何提高信用评分 | 怎样让评分变好
expiration_date | 了解卡的有效期 | 卡何时到期

[kitchen] 饮食与餐厅
recipe | 获取菜谱 | 一道菜怎么做
restaurant_reviews | 了解餐厅评价 | 别人对餐厅的看法
calories | 了解食物的热量 | 某种食物有多少卡路里
nutrition_info | 了解食物的营养成分 | 维生素、脂肪、糖等,或是否健康
restaurant_suggestion | 获得餐厅推荐 | 去哪里吃饭
ingredients_list | 了解一道菜需要的食材 | 菜里有什么
ingredient_substitution | 替换某种食材 | 一种食材能否用另一种代替
cook_time | 了解烹饪时间 | 要煮或烤多久
food_last | 了解食物能放多久 | 食物是否还新鲜
meal_suggestion | 获得吃什么的建议 | 做什么菜、吃什么
restaurant_reservation | 预订餐厅座位 | 新订一张桌子
confirm_reservation | 确认餐厅预订 | 确认预订是否存在
how_busy | 了解餐厅有多忙 | 人多不多、要等多久
cancel_reservation | 取消餐厅预订 | 退掉已订的座位
accept_reservations | 了解餐厅是否接受预订 | 那里能否订位

[home] 清单、音乐与家居
shopping_list | 听取购物清单 | 朗读购物清单
shopping_list_update | 增减购物清单上的东西 | 修改购物清单
next_song | 跳到下一首歌 | 播放下一首
play_music | 播放音乐 | 播放歌曲、歌手或某类音乐
update_playlist | 把歌曲加入播放列表 | 修改播放列表
todo_list | 听取待办清单 | 朗读待办事项
todo_list_update | 增减待办事项 | 修改或清空待办清单
calendar | 查看日历 | 某天日历上的安排
calendar_update | 添加或删除日历事件 | 修改日历
what_song | 了解正在播放的歌 | 歌名或歌手
order | 订购商品 | 购买或再次购买
order_status | 查询订单状态 | 包裹在哪里、何时到
reminder | 听取现有的提醒 | 朗读已有提醒
reminder_update | 设置提醒 | 以后提醒某件事
smart_home | 控制家中设备 | 灯、暖气、门和电器

[auto] 汽车与出行
traffic | 了解路况 | 路上堵不堵
directions | 获取路线 | 怎么去某地
gas | 了解还剩多少油 | 油箱里的油
gas_type | 了解车用哪种油 | 车需要的燃油种类
distance | 了解某地有多远 | 到某地的距离或时间
current_location | 了解自己现在的位置 | 用户当前所在地
mpg | 了解车的油耗 | 每加仑英里数
oil_change_when | 了解何时该换机油 | 换机油的时间
oil_change_how | 了解怎么换机油 | 换机油的步骤
jump_start | 了解如何搭电启动 | 电瓶没电时启动车
uber | 叫车 | 叫一辆带司机的车
schedule_maintenance | 预约汽车保养 | 预约保养或修车
last_maintenance | 了解上次保养的时间 | 上次检查的日期
tire_pressure | 了解胎压 | 轮胎里有多少气
tire_change | 更换轮胎 | 换轮胎或学习换轮胎

[travel] 旅行
book_flight | 预订机票 | 查找或购买机票
book_hotel | 预订酒店 | 查找或预订房间
car_rental | 租车 | 查找或预订租用的车
travel_suggestion | 了解旅行中看什么玩什么 | 某地的景点和活动
travel_alert | 了解旅行警示 | 去某地是否安全
travel_notification | 告知银行自己的行程 | 让银行知道出行以便用卡
carry_on | 了解登机行李规定 | 什么可以带进机舱
timezone | 了解某地的时区 | 某地属于哪个时区
vaccines | 了解出行需要的疫苗 | 旅行前要打的针
translate | 翻译 | 某句话用别的语言怎么说
flight_status | 查询航班状态 | 登机、到达或延误
international_visa | 了解是否需要签证 | 某国的签证
lost_luggage | 找回丢失的行李 | 没有到达的行李
plug_type | 了解某国的插座类型 | 国外的插座和转换头
exchange_rate | 查询汇率 | 一种货币值多少另一种货币

[utility] 小工具
time | 了解现在几点 | 本地或别处的时间
alarm | 设置闹钟 | 在某个时间响铃
share_location | 把位置分享给别人 | 发送自己的位置
find_phone | 找手机 | 手机不知放在哪里
weather | 了解天气 | 某地的天气和温度
text | 发短信 | 写短信或发短信
spelling | 了解单词怎么拼 | 单词的拼写
make_call | 打电话给某人 | 拨打电话
timer | 设置或查看计时器 | 倒计时
date | 了解日期 | 今天或某天是几号
calculator | 计算 | 加减、百分比、开方
measurement_conversion | 换算单位 | 从一个单位换到另一个
flip_coin | 抛硬币 | 正面或反面
roll_dice | 掷骰子 | 掷一次骰子
definition | 了解词的意思 | 词语的含义

[work] 工作与薪酬
direct_deposit | 设置工资直接存入 | 工资直接打到银行账户
pto_request | 申请休假 | 请求休假日
taxes | 了解要交的税 | 要交多少税
payday | 了解发薪日 | 工资何时到
w2 | 获取W-2表格 | 报税用的工资单
pto_balance | 了解还剩几天假 | 可用的休假天数
pto_request_status | 查询休假申请的状态 | 休假是否被批准
next_holiday | 了解下一个假日 | 下一个公共假日
insurance | 了解自己的保险计划 | 现有保险是什么、保什么
insurance_change | 更换保险计划 | 换保险或另买保险
schedule_meeting | 安排会议 | 约会议或订会议室
pto_used | 了解已经休了几天假 | 已用的休假天数
meeting_schedule | 查看有哪些会议 | 已经安排好的会议
rollover_401k | 转移401k退休账户 | 把退休计划转到别处
income | 了解自己的收入 | 用户挣多少钱

[talk] 闲聊
greeting | 打招呼 | 问候
goodbye | 道别 | 告别
tell_joke | 听笑话 | 讲笑话
where_are_you_from | 问助手来自哪里 | 助手的来处
how_old_are_you | 问助手的年龄 | 助手多大
what_is_your_name | 问助手的名字 | 助手叫什么
who_made_you | 问谁造了助手 | 助手的制造者
thank_you | 道谢 | 表示感谢
what_can_i_ask_you | 了解助手能做什么 | 助手的话题和能力
what_are_your_hobbies | 问助手的爱好 | 助手喜欢做什么
do_you_have_pets | 问助手有没有宠物 | 助手的动物
are_you_a_bot | 问对方是机器还是人 | 回答的是人还是程序
meaning_of_life | 问生命的意义 | 我们为何活着
who_do_you_work_for | 问助手为谁工作 | 助手的雇主或上司
fun_fact | 听一件趣事 | 有趣的小知识

[settings] 助手的设置
change_ai_name | 给助手改名 | 助手换个名字
change_user_name | 换个称呼 | 更改助手对用户的称呼
cancel | 取消刚才的要求 | 停止或收回命令
user_name | 了解助手怎么称呼自己 | 助手所知的用户名字
reset_settings | 重置设置 | 恢复出厂设置
whisper_mode | 让助手小声说话 | 低声说话
repeat | 再听一遍上次的回答 | 重复说过的话
no | 说不 | 拒绝或否认
yes | 说是 | 同意或确认
maybe | 表示不确定 | 既非是也非否
change_language | 更改助手的语言 | 助手说哪种语言
change_accent | 更改助手的口音 | 助手的口音或嗓音
change_volume | 调节音量 | 大声或小声
change_speed | 调节助手的语速 | 说快些或慢些
sync_device | 连接或断开手机 | 助手与设备配对
"""
