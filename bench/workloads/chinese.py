"""Chinese words and patterns."""

from __future__ import annotations

from readoff.bench.workloads.chinese_forms import FORMS
from readoff.bench.workloads.lexicon import Domain, Lexicon

_DOMAINS = (
    Domain(
        things=("发票", "年度套餐", "席位许可", "退款单", "银行卡付款", "优惠券"),
        events=("被重复扣款", "金额显示错误", "未经通知就被取消"),
        remedies=("退回原付款账户", "在下一期账单中更正", "换成同等价值的额度"),
        conditions=("申请中写明了单据编号", "账户没有欠款", "购买不超过三十天"),
        topics=("退款时间", "税率", "付款期限", "滞纳金", "账单地址"),
        teams=("财务组", "销售组", "技术支持", "安全组", "法务组", "合作伙伴组"),
        pages=("付款方式", "退款政策", "套餐与价格", "税务表格", "我的账户", "联系我们"),
    ),
    Domain(
        things=("行李箱", "登机牌", "充电宝", "座位预订", "宠物箱"),
        events=("在转机时遗失", "在登机口被拒绝", "送达时已经损坏"),
        remedies=("送到旅客的酒店", "改签到下一航班", "全额赔付"),
        conditions=("在机场当场登记", "机票是直接购买的", "没有超过重量限制"),
        topics=("重量限制", "索赔表格", "值机时间", "手续费", "随身携带规定"),
        teams=("行李组", "订座组", "特殊服务组", "退票组", "贵宾室", "货运组"),
        pages=("行李规定", "航班动态", "退票改签", "旅行证件", "选座", "帮助中心"),
    ),
    Domain(
        things=("数据库", "消息队列", "负载均衡器", "备份任务", "登录服务"),
        events=("在发布期间超时", "磁盘空间耗尽", "两次丢失主节点"),
        remedies=("从最近的快照恢复", "迁移到备用集群", "回滚到上一个版本"),
        conditions=("错误率持续高于百分之一", "没有写操作在等待锁", "监控仍在正常上报"),
        topics=("重试上限", "切换时间", "告警规则", "内存配额", "日志保留期"),
        teams=("平台组", "存储组", "网络组", "安全组", "发布组", "值班负责人"),
        pages=("操作手册", "监控面板", "变更记录", "告警", "容量规划", "故障复盘"),
    ),
    Domain(
        things=("血液检查", "疫苗接种", "处方", "复诊预约", "转诊单"),
        events=("被改到另一天", "在病历中缺失", "被送到错误的科室"),
        remedies=("免费重做一次", "转给家庭医生", "通过电话重新预约"),
        conditions=("患者前一晚已经空腹", "保险公司已书面同意", "病历号填写正确"),
        topics=("等候时间", "门诊时间", "检查前准备", "自付比例", "副作用"),
        teams=("前台", "检验科", "护理部", "药房", "医保窗口", "放射科"),
        pages=("预约挂号", "检验科", "就诊须知", "收费标准", "医生介绍", "表格下载"),
    ),
    Domain(
        things=("咖啡机", "羽绒服", "礼品卡", "替换零件", "台灯"),
        events=("用了一周就坏了", "尺码发错", "一直没有从仓库发出"),
        remedies=("免费更换", "在任意门店换货", "退到账户余额"),
        conditions=("包装没有拆开", "购物小票还在", "商品没有使用痕迹"),
        topics=("退货期限", "保修范围", "送达日期", "零件供应", "维修费用"),
        teams=("退货组", "仓储组", "配送组", "维修组", "客户关怀组", "风控组"),
        pages=("退换货", "订单状态", "保修服务", "零件商城", "门店查询", "联系客服"),
    ),
    Domain(
        things=("借书证", "馆际互借", "自习室", "缩微胶片", "语音导览"),
        events=("被别人预约", "在假期里过期", "被登记为遗失"),
        remedies=("续借一个学期", "在总服务台领取", "由档案室重新登记"),
        conditions=("没有其他读者在等", "罚款已经缴清", "本人携带证件"),
        topics=("借阅期限", "开放时间", "催还费用", "访客权限", "复印规定"),
        teams=("借阅台", "档案室", "采编部", "后勤组", "技术服务台", "阅览室"),
        pages=("馆藏目录", "开放时间", "办理借书证", "收费说明", "空间预约", "特藏"),
    ),
)

_KEYS = (
    "customer=客户 name=姓名 plan=套餐 messages=对话 from=来自 agent=客服 text=内容 query=查询 "
    "results=结果 id=编号 title=标题 claim=说法 evidence=证据 goal=目标 page=页面 links=链接 "
    "clicked=已点击 case=工单 status=状态 open=处理中 amount=金额 items=项目 thing=名称 "
    "notes=备注 document=文档 documents=文档列表 url=地址"
)

CHINESE = Lexicon(
    language="zh",
    joiner="",
    domains=_DOMAINS,
    names=("李雨桐", "王建国", "陈思远", "赵敏", "周文博", "孙晓岚"),
    dates=("三月三日", "四月十七日", "五月的第一个周一", "六月二十八日", "九月九日", "上周五"),
    plans=("基础版", "团队版", "商务版", "企业版"),
    messages=(
        "{date}，我的{thing}{event}，{name}让我再等{days}天。",
        "关于{thing}我已经写过两次信，最近一次是在{date}。",
        "没有人能告诉我，到底是{remedy}还是{remedy}。",
        "“{page}”页面上没有写{thing}的{topic}。",
        "我的情况是{condition}，所以我以为{team}会在{date}之前回复。",
        "我们检查了{thing}：确实{event}，大约影响百分之{percent}的用户。",
        "请确认能否在{date}之前{remedy}？",
        "我手里的单号是{id}，当时付了{amount}元。",
        "后来{team}的同事答应说，{thing}会{remedy}。",
        "与其再等{days}天换新的，我宁愿留着这个{thing}。",
        "谢谢{name}这么快回复，但我问的不是这个。",
        "对我们来说，{topic}比{amount}元的价格更重要。",
    ),
    replies=(
        "感谢{name}的来信，我这里可以看到编号为{id}的{thing}。",
        "根据“{page}”的说明，只要{condition}，就可以{remedy}。",
        "我已经把这件事转给{team}，他们会在{date}之前给您答复。",
        "请问{condition}吗？",
        "在您的套餐里，{topic}对应的金额是{amount}元，从{date}起一直如此。",
        "很抱歉，您的{thing}{event}，这本不该发生。",
        "请把{id}号表格发给我们，{days}天内就会{remedy}。",
        "关于{topic}，还有什么需要我帮您查的吗？",
    ),
    passages=(
        "{thing}如果{event}，只要{condition}，会在{days}个工作日内{remedy}。",
        "{thing}的{topic}在{date}做了调整，此前一直是{days}天。",
        "在百分之{percent}的情况下，{thing}无需进一步询问即可{remedy}。",
        "有关{topic}的问题由{team}答复，一般当天就有结果。",
        "若{thing}{event}，客户仍有权要求{remedy}。",
        "每个{thing}的上限是{amount}元，全年合计不超过{amount}元。",
        "{topic}的例外情况列在“{page}”中，需要{name}同意。",
        "自{date}起，这一规定也适用于{condition}的情形。",
        "从{date}到{date}，此类案例减少了百分之{percent}。",
        "{name}的报告指出，只要{condition}，{thing}一般不会成为问题。",
        "与{thing}不同，{thing}即使{event}，也仍有{days}天的保障。",
        "在{remedy}之前，必须先签署{id}号表格。",
    ),
    steps=(
        "打开了“{page}”，查找{thing}的{topic}。",
        "页面列出了{topic}，并注明{thing}可以{remedy}。",
        "这里没有提到{thing}{event}的情况。",
        "右侧有一个通往“{page}”的链接，最后更新于{date}。",
        "表格里写着{amount}元和{days}天，但没有说明适用对象。",
        "搜索了“{short}”，得到{days}条结果，多数来自{team}。",
        "文中说明，只有{condition}时才适用。",
        "“{page}”的内容和之前看到的一样，于是返回上一页。",
    ),
    fillers=(
        "谢谢。",
        "请核实。",
        "详情见下文。",
        "暂时就是这些。",
        "此后没有其他变化。",
        "具体情况与上次相同。",
        "希望尽快有人再看一遍。",
        "当天稍晚的时候，以上内容都通过电话得到了确认。",
    ),
    reference="编号{digits}。",
    titles=(
        "{thing}：{topic}",
        "{thing}{event}怎么办",
        "{thing}的{topic}与{topic}",
        "{page}（{date}更新）",
        "{thing}如何{remedy}",
    ),
    questions=(
        "{thing}的{topic}是怎么规定的？",
        "如果{thing}{event}，应该怎么办？",
        "{thing}能不能{remedy}？",
        "{thing}的{topic}由谁决定？",
        "{thing}{event}，还在保障范围内吗？",
    ),
    short="{thing} {topic}",
    claims=(
        "{thing}会在{days}天内{remedy}。",
        "{thing}的{topic}在{date}做了调整。",
        "除非{condition}，否则{thing}不会{remedy}。",
        "有关{topic}的问题由{team}答复。",
    ),
    keys=dict(entry.split("=") for entry in _KEYS.split()),
    forms=FORMS,
    wanted="这篇文档对回答下面的查询有帮助吗？查询：{query}",
    sufficient="这些文档已经包含回答该查询所需的全部信息。",
    next_link="为了回答该查询，下一步应该打开哪个链接？",
    stop="搜索应当到此为止，因为再走一步也不会有新的信息。",
)
