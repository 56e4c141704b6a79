"""Forms: what has to be known for a task, how one asks for it, and what the answers can be."""

from __future__ import annotations

from collections.abc import Mapping

from readoff.bench.records import Language

POOLS: Mapping[str, Mapping[Language, tuple[str, ...]]] = {
    "city": {
        "en": (
            "Lisbon",
            "Oslo",
            "Denver",
            "Kyoto",
            "Lyon",
            "Tallinn",
            "Leeds",
            "Porto",
            "Graz",
            "Cork",
            "Boston",
            "Ghent",
            "Malmo",
            "Turin",
        ),
        "zh": (
            "北京",
            "上海",
            "成都",
            "广州",
            "西安",
            "杭州",
            "南京",
            "昆明",
            "青岛",
            "厦门",
            "长沙",
            "武汉",
        ),
    },
    "day": {
        "en": (
            "3 May",
            "17 June",
            "Monday",
            "next Friday",
            "21 August",
            "9 October",
            "Sunday",
            "1 December",
            "12 March",
            "28 July",
        ),
        "zh": (
            "5月3日",
            "6月17日",
            "星期一",
            "下周五",
            "8月21日",
            "10月9日",
            "星期天",
            "12月1日",
            "3月12日",
        ),
    },
    "hour": {
        "en": ("7 am", "8:30", "noon", "14:15", "6 pm", "half past nine", "21:00", "4 o'clock"),
        "zh": ("早上七点", "八点半", "中午", "下午两点一刻", "傍晚六点", "晚上九点", "十点"),
    },
    "count": {
        "en": ("one", "two", "three", "four", "five", "six", "seven", "eight"),
        "zh": ("一位", "两位", "三位", "四位", "五位", "六位", "七位", "八位"),
    },
    "sum": {
        "en": (
            "40 euros",
            "$250",
            "1,200 pounds",
            "75 dollars",
            "$18.50",
            "600 euros",
            "90 pounds",
        ),
        "zh": ("40元", "250元", "1200元", "75元", "600元", "90元", "3000元"),
    },
    "account": {
        "en": (
            "savings",
            "checking",
            "the joint account",
            "the business account",
            "the old account",
        ),
        "zh": ("储蓄账户", "活期账户", "共同账户", "公司账户", "旧账户"),
    },
    "person": {
        "en": ("Maya", "Mr Brandt", "Uncle Joe", "Dr Sato", "Lena", "Karim", "Ms Doyle", "Ines"),
        "zh": ("小李", "王先生", "陈医生", "张女士", "阿明", "刘老师", "小周"),
    },
    "thing": {
        "en": (
            "a desk lamp",
            "two mugs",
            "running shoes",
            "a phone case",
            "a kettle",
            "a backpack",
        ),
        "zh": ("一盏台灯", "两个杯子", "一双跑鞋", "一个手机壳", "一个水壶", "一个背包"),
    },
    "street": {
        "en": (
            "12 Mill Lane",
            "7 Station Road",
            "the office",
            "40 Hill Street",
            "the summer house",
        ),
        "zh": ("磨坊路12号", "车站路7号", "办公室", "山街40号", "老家"),
    },
    "pay": {
        "en": ("by card", "by invoice", "in cash", "by voucher", "by bank transfer"),
        "zh": ("刷卡", "开发票付款", "现金", "代金券", "银行转账"),
    },
    "place": {
        "en": ("the Blue Door", "Nonna's", "Cafe Orient", "the Old Mill", "Saigon House"),
        "zh": ("蓝门餐厅", "老磨坊", "东方咖啡", "西贡小馆", "海边食堂"),
    },
    "tongue": {
        "en": ("Italian", "Finnish", "Korean", "Greek", "Welsh", "Hindi"),
        "zh": ("意大利语", "芬兰语", "韩语", "希腊语", "法语", "印地语"),
    },
    "phrase": {
        "en": ("good night", "where is the station", "thank you", "see you soon", "one moment"),
        "zh": ("晚安", "车站在哪里", "谢谢", "回头见", "请稍等"),
    },
    "number": {
        "en": ("88213", "A-4471", "501-22", "K90017", "73 65 10", "QX-8"),
        "zh": ("88213", "A-4471", "501-22", "K90017", "736510", "QX-8"),
    },
    "fault": {
        "en": ("it does not start", "the screen is cracked", "it leaks", "it gets too hot"),
        "zh": ("无法启动", "屏幕裂了", "漏水", "过热"),
    },
    "size": {
        "en": ("small", "size 42", "extra large", "medium", "a family car", "a van"),
        "zh": ("小号", "42码", "加大号", "中号", "家用车", "面包车"),
    },
    "topic": {
        "en": ("the budget", "the new hire", "the product launch", "the audit", "holiday cover"),
        "zh": ("预算", "新员工", "产品发布", "审计", "假期值班"),
    },
}
"""Values that answers are drawn from. Two entries of one pool never get the same value."""

SLOTS = """
from | city | departure city | From which city do you leave? | 出发城市 | 您从哪个城市出发?
to | city | destination | Where do you want to go? | 目的地 | 您要去哪里?
leave | day | departure date | On which day do you want to leave? | 出发日期 | 您哪天出发?
back | day | return date | When do you want to come back? | 返程日期 | 您哪天回来?
people | count | number of people | How many people are coming? | 人数 | 一共几个人?
amount | sum | amount | How much should it be? | 金额 | 金额是多少?
source | account | source account | Which account should it come from? | 转出账户 | 从哪个账户转出?
target | account | target account | Which account should it go to? | 转入账户 | 转到哪个账户?
payee | person | recipient | Who is to receive it? | 收款人 | 收款人是谁?
due | day | execution date | On which day should it be carried out? | 执行日期 | 哪天执行?
restaurant | place | restaurant | Which restaurant is it for? | 餐厅 | 哪家餐厅?
evening | day | date of the visit | For which day? | 用餐日期 | 订在哪一天?
table | hour | time of the visit | At what time do you want the table? | 用餐时间 | 几点用餐?
name | person | name for the booking | Under which name should we book? | 预订人 | 用谁的名字预订?
item | thing | article | What would you like to order? | 商品 | 您要订什么?
address | street | delivery address | Where should it be delivered? | 送货地址 | 送到哪里?
payment | pay | way of paying | How do you want to pay? | 付款方式 | 您怎么付款?
arrival | day | delivery date | On which day should it arrive? | 送达日期 | 哪天送达?
phrase | phrase | phrase | What should be translated? | 要翻译的话 | 要翻译什么?
tongue | tongue | target language | Into which language? | 目标语言 | 翻译成哪种语言?
order | number | order number | What is your order number? | 订单号 | 您的订单号是多少?
fault | fault | fault | What is wrong with it? | 故障 | 出了什么问题?
bought | day | date of purchase | When did you buy it? | 购买日期 | 您什么时候买的?
pickup | city | pick-up place | Where do you want to pick it up? | 取车地点 | 在哪里取车?
dropoff | city | drop-off place | Where will you return it? | 还车地点 | 在哪里还车?
car | size | size | Which size do you need? | 车型或尺码 | 需要多大的?
start | hour | start time | When does it begin? | 开始时间 | 几点开始?
end | hour | end time | When does it end? | 结束时间 | 几点结束?
subject | topic | subject | What is it about? | 主题 | 主题是什么?
guest | person | other participant | Who else takes part? | 另一位参加者 | 还有谁参加?
meeting | day | day of the meeting | On which day is the meeting? | 会议日期 | 会议在哪天?
caller | person | contact person | Whom should we ask for? | 联系人 | 我们该找谁?
phone | number | customer number | What is your customer number? | 客户号 | 您的客户号是多少?
"""
"""`slot | pool | name | question | name in Chinese | question in Chinese`."""

TASKS = """
book a flight | 预订机票 | from to leave back people
book a train | 预订火车票 | from to leave people
transfer money | 转账 | amount source target due
pay somebody | 付款给某人 | amount payee source due
book a table | 预订餐桌 | restaurant evening table people name
order goods | 订购商品 | item address payment arrival
translate a phrase | 翻译一句话 | phrase tongue
report a fault | 报修 | order fault bought caller
return an article | 退货 | order item bought payment
rent a car | 租车 | pickup dropoff leave back car
arrange a meeting | 安排会议 | meeting start end subject guest
send a present | 送礼物 | item payee address arrival
change an order | 更改订单 | order phone address arrival
book a hotel | 预订酒店 | to leave back people name
"""
"""`task | task in Chinese | slots that it needs`."""
