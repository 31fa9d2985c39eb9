/** Typical prompts, in common languages and formats. */
export const ordinaryTexts: Readonly<Record<string, string>> = {
  English: `The harbour was quiet that morning. Two fishing boats had come in before dawn, and their crews were asleep below deck
while the gulls argued over what was left in the nets. No one expected the ferry, which ran only on Tuesdays since the new
bridge had been opened, so when its horn sounded behind the fog the old man put down his cup and looked at his watch. "That
can't be right," he said. "They've changed the timetable again, haven't they?" His daughter shrugged; she'd stopped reading
the notices months ago. Summarize the passage above in three sentences, keep the names of the places, and explain which
assumptions you've made about the characters' motives.`,
  German: `Am Samstag fuhren wir mit dem ersten Zug in die Berge, obwohl der Wetterbericht Regen versprochen hatte. Die
Straßenbahnhaltestelle lag noch im Dunkeln, und außer uns wartete dort nur eine Bäckereiverkäuferin, die ihre
Handschuhe vergessen hatte. Später, oberhalb der Waldgrenze, öffnete sich der Blick über drei Täler hinweg bis zur
Grenze. Die Hüttenwirtin erzählte uns von der Lawinenverbauung, von Genehmigungsverfahren und Zuständigkeiten, und wie
schwierig es geworden sei, jemanden für die Wintermonate zu finden. Bitte fassen Sie den Text zusammen und schätzen Sie
die Gehzeit ab.`,
  French: `Le marché se tenait chaque jeudi sur la place de l'église, à l'ombre des platanes. On y trouvait des fromages de
brebis, des paniers d'osier et, quelquefois, un vieux monsieur qui réparait les montres devant tout le monde. Ce jour-là,
pourtant, il n'était pas venu; sa chaise restait vide et personne n'osait s'y asseoir. « Il reviendra dès qu'il aura
retrouvé ses lunettes », répétait la fleuriste, sans trop y croire. Pourriez-vous résumer ce passage en quelques phrases et
proposer un titre qui évoque l'attente plutôt que l'absence ?`,
  Polish: `Wczesnym rankiem na dworcu było zupełnie pusto, jeśli nie liczyć gołębi i zaspanego kolejarza, który zamiatał
peron. Pociąg do Przemyśla miał opóźnić się o czterdzieści minut, więc usiadłam na ławce i wyjęłam z torby książkę, której
od miesięcy nie mogłam skończyć. Obok mnie przysiadł się chłopiec z latawcem większym od niego samego. Powiedział, że jedzie
do dziadka, bo tam wieje najlepszy wiatr w całym województwie. Proszę streścić ten fragment i wyjaśnić, dlaczego
narratorka nie odpowiedziała.`,
  Spanish: `Cuando llegamos a la estación ya no quedaban taxis, así que echamos a andar por la avenida con las maletas a
cuestas. Hacía un calor húmedo, de tormenta, y los vecinos sacaban las sillas a la acera para hablar de fútbol y de lo caro
que se había puesto todo. Una señora nos preguntó adónde íbamos y, sin esperar respuesta, nos señaló el camino más corto. ¿Podrías
traducir este párrafo al inglés y explicar las expresiones coloquiales?`,
  Turkish: `Yağmur dinince çocuklar yeniden sokağa çıktı ve su birikintilerinde kâğıttan gemiler yüzdürmeye başladı. Köşedeki
bakkalın sahibi, tezgâhın arkasından onları izlerken gençliğinde yaptığı yolculukları düşünüyordu. Akşam olduğunda
dükkânını kapatıp iskeleye kadar yürüdü, çünkü kardeşinin gelip gelmeyeceğini hâlâ bilmiyordu. Lütfen bu metni özetleyin.`,
  Vietnamese: `Buổi sáng hôm ấy trời se lạnh, cả con phố còn chưa thức giấc. Bà cụ bán xôi ở đầu ngõ đã nhóm bếp từ lâu, khói bay lẫn
vào sương. Tôi dắt xe ra, định đi sớm để tránh kẹt đường, nhưng rồi lại ngồi xuống ăn một gói xôi nóng và nghe bà kể
chuyện ngày xưa. Hãy tóm tắt đoạn văn trên và dịch sang tiếng Anh.`,
  Russian: `Поздно вечером в деревню приехал незнакомый человек на старом велосипеде и спросил, где можно переночевать. Ему
показали дом у реки, в котором уже несколько лет никто не жил, кроме кошек и сквозняков. Утром оказалось, что он
починил крыльцо, наколол дров и исчез, оставив на столе записку с благодарностью и рисунок моста, которого у нас никогда
не было. Пожалуйста, перескажите этот отрывок своими словами и предположите, кем мог быть путешественник.`,
  Ukrainian: `Навесні, коли зійшов сніг, сусіди знову почали сперечатися, де саме проходить межа між їхніми городами. Ніхто вже не
пам'ятав, хто посадив ту стару грушу, але кожен був певен, що вона належить саме йому. Нарешті вирішили ділити врожай
навпіл, і суперечка вщухла до наступного року. Будь ласка, стисло перекажіть цей текст.`,
  Chinese: `那天傍晚下了一场大雨，街上的人都躲进了路边的小店。我坐在窗边喝茶，看见一位老先生撑着伞慢慢走过来，手里提着一个旧木箱。他说自己是修钟表的，
在这条街上已经做了四十年，可是现在年轻人都用手机看时间，很少有人再来找他了。请用三句话概括上面的内容，并说明作者想要表达的感情。
另外，如果把这个故事改写成剧本，开头应该怎样安排场景和对话？`,
  'Traditional Chinese': `圖書館的閉館時間到了，管理員輕輕敲了敲桌子，提醒還在看書的學生收拾東西。外面的風很大，樹葉被吹得沙沙作響。她把最後一本書放回架上，
關掉燈，忽然發現角落裡有一封沒有寄出的信。請幫我把這段文字翻譯成英文，並且保留原來的語氣。`,
  Japanese: `駅前の喫茶店は、昼を過ぎると急に静かになる。窓際の席には、いつも同じ時間に来るおじいさんが座っていて、新聞を読みながらコーヒーを
ゆっくり飲んでいる。私はカウンターの中で皿を拭きながら、その人がどんな仕事をしていたのか想像してみることがある。次の文章を英語に翻訳して、
登場人物の気持ちを説明してください。データベースのインデックスについても、分かりやすく教えてもらえますか。`,
  Korean: `어제 저녁에는 오랜만에 친구들을 만나서 늦게까지 이야기를 나누었다. 비가 많이 내려서 버스가 한참 동안 오지 않았지만, 아무도 서두르지 않았다.
우리는 정류장 옆 작은 가게에서 따뜻한 국수를 먹으며 학교 다닐 때의 일을 떠올렸다. 위의 글을 세 문장으로 요약하고, 글쓴이가 왜 그렇게 느꼈는지
설명해 주세요. 그리고 데이터베이스를 처음 배우는 사람에게 추천할 만한 책도 알려 주세요.`,
  Arabic: `في صباح اليوم التالي خرج التاجر إلى السوق باكرا، وكان يحمل معه رسالة لم يفتحها منذ وصولها. جلس أمام دكان صديقه
القديم وطلب كوبا من الشاي، ثم أخذ يراقب الناس وهم يشترون الخبز والزيتون ويتحدثون عن المطر الذي تأخر هذا العام. من فضلك
لخص النص السابق في ثلاث جمل، واشرح سبب تردد الرجل في قراءة الرسالة.`,
  Hebrew: `בערב הגיעה הרכבת האחרונה לתחנה הקטנה שבין ההרים, וממנה ירד רק נוסע אחד עם מזוודה כבדה. הוא שאל את הפקיד אם יש
בסביבה מקום לישון בו, והפקיד הצביע על אור רחוק בקצה הכביש. בדרך לשם התחיל לרדת גשם, אבל האיש לא מיהר. אנא סכמו את הקטע
בשלושה משפטים והסבירו מה לדעתכם מחפש הנוסע.`,
  Persian: `پیرمرد هر روز عصر کنار پنجره می‌نشست و به کوچه نگاه می‌کرد. بچه‌ها توپ بازی می‌کردند و صدای خنده‌شان تا آخر محله
می‌رسید. آن روز نامه‌ای از پسرش رسیده بود که هنوز باز نکرده بود. لطفاً این متن را خلاصه کنید و دلیل تردید او را توضیح دهید.`,
  Hindi: `गाँव के बाहर एक पुराना बरगद का पेड़ था, जिसके नीचे शाम को सब लोग इकट्ठा होते थे। उस दिन डाकिया देर से आया और उसने बताया कि
पुल टूट गया है, इसलिए शहर से कोई सामान नहीं आ पाएगा। बच्चों ने पूछा कि अब स्कूल कैसे जाएँगे। कृपया इस अनुच्छेद का सारांश
तीन वाक्यों में लिखिए और बताइए कि लेखक क्या कहना चाहता है।`,
  Bengali: `নদীর ধারে একটা ছোট দোকান ছিল, সেখানে সারাদিন চা পাওয়া যেত। সন্ধ্যায় মাঝিরা এসে বসত আর দূরের শহরের গল্প করত। একদিন ঝড়ের পরে
দোকানটা আর খুঁজে পাওয়া গেল না। দয়া করে এই অংশটির সারসংক্ষেপ লিখুন এবং ইংরেজিতে অনুবাদ করুন।`,
  Tamil: `மழை நின்ற பிறகு குழந்தைகள் மீண்டும் தெருவுக்கு வந்து விளையாடத் தொடங்கினர். கடைக்காரர் தன் பழைய வானொலியில் பாடல் கேட்டுக்
கொண்டிருந்தார். தயவுசெய்து இந்தப் பகுதியைச் சுருக்கி ஆங்கிலத்தில் மொழிபெயர்க்கவும்.`,
  Thai: `เช้าวันนั้นฝนตกหนักมากจนถนนหน้าบ้านกลายเป็นแม่น้ำ คุณยายเปิดร้านช้ากว่าทุกวันและนั่งรอลูกค้าอยู่ใต้หลังคาสังกะสี
เด็กนักเรียนสองคนวิ่งเข้ามาหลบฝนแล้วขอซื้อน้ำเต้าหู้ร้อน ๆ กรุณาสรุปข้อความข้างต้นเป็นสามประโยค และอธิบายว่าผู้เขียนต้องการสื่ออะไร`,
  Greek: `Το πρωί της Κυριακής το νησί ξύπνησε με δυνατό αέρα και τα καΐκια έμειναν δεμένα στο λιμάνι. Ο καφετζής έβγαλε τις
καρέκλες έξω, όπως κάθε μέρα, αν και ήξερε ότι κανείς δεν θα καθόταν. Μόνο ο δάσκαλος πέρασε, άφησε ένα βιβλίο πάνω στο
τραπέζι και έφυγε χωρίς να πει τίποτα. Παρακαλώ συνοψίστε το κείμενο σε τρεις προτάσεις.`,
  Georgian: `დილით ადრე მდინარესთან ჩავედით და ნავი წყალში ჩავუშვით. ბაბუამ გვითხრა, რომ ამინდი შეიცვლებოდა, მაგრამ ჩვენ არ დავუჯერეთ.
გთხოვთ, შეაჯამოთ ეს ტექსტი ორ წინადადებაში.`,
  Armenian: `Առավոտյան ծերունին դուրս եկավ այգի և տեսավ, որ ծառերը ծաղկել են։ Նա նստեց նստարանին և երկար նայեց սարերին։ Խնդրում եմ
ամփոփել այս հատվածը երկու նախադասությամբ։`,
  'chat with emoji': `Good morning!! ☀️ Can you plan a birthday party for my daughter? 🎂🎉 She's turning seven and loves dinosaurs 🦕 and
space 🚀. We have about 12 kids, a small garden, and (hopefully) no rain 😅. Oh, and two of them can't eat nuts! Thanks a lot ❤️`,
  TypeScript: `export async function readPages<Row>(query: Query, { pageSize = 100, signal }: PageOptions): Promise<Row[]> {
  const rows: Row[] = [];
  for (let page = 0; ; page += 1) {
    signal?.throwIfAborted();
    const found = await query.limit(pageSize).offset(page * pageSize).execute<Row>();
    rows.push(...found.filter((row) => row !== null));
    if (found.length < pageSize) return rows; // the last page is the first that is not full
  }
}

const byCity = Object.groupBy(customers, ({ address }) => address?.city ?? 'unknown');
console.log(\`\${Object.keys(byCity).length} cities, \${customers.length} customers\`);`,
  Python: `import csv
from collections import defaultdict


class StockLedger:
    """Keeps how many of each item are on the shelf."""

    def __init__(self, path: str) -> None:
        self._counts: dict[str, int] = defaultdict(int)
        with open(path, newline="", encoding="utf-8") as handle:
            for row in csv.DictReader(handle):
                self._counts[row["sku"]] += int(row["quantity"])

    def low_stock(self, threshold: int = 5) -> list[str]:
        return sorted(sku for sku, count in self._counts.items() if count <= threshold)


if __name__ == "__main__":
    print("\\n".join(StockLedger("stock.csv").low_stock()))`,
  SQL: `SELECT c.customer_id, c.last_name, COUNT(o.id) AS order_count, SUM(o.total_cents) / 100.0 AS revenue
FROM customers AS c
LEFT JOIN orders AS o ON o.customer_id = c.customer_id AND o.created_at >= DATE '2024-01-01'
WHERE c.country_code IN ('DE', 'AT', 'CH') AND c.deleted_at IS NULL
GROUP BY c.customer_id, c.last_name
HAVING COUNT(o.id) > 3
ORDER BY revenue DESC NULLS LAST
LIMIT 50;`,
  C: `static int parse_header(const char *buf, size_t len, struct header *out)
{
	size_t i = 0;

	while (i < len && buf[i] != ':') {
		if (!isprint((unsigned char)buf[i]))
			return -EINVAL;
		i++;
	}
	if (i == len)
		return -EAGAIN;
	memcpy(out->name, buf, i);
	out->name[i] = '\\0';
	return (int)i + 1;
}`,
  HTML: `<!doctype html>
<html lang="en">
  <head><meta charset="utf-8"><title>Opening hours</title><link rel="stylesheet" href="/assets/site.css"></head>
  <body>
    <nav class="top-bar"><a href="/">Home</a> <a href="/contact" class="active">Contact</a></nav>
    <table id="hours"><tr><th>Day</th><th>Open</th></tr><tr><td>Monday</td><td>09:00&ndash;17:30</td></tr></table>
    <p style="color: #33aa55; margin: 0 auto">Closed on <strong>public holidays</strong>.</p>
  </body>
</html>`,
  Markdown: `# Release checklist

1. **Freeze** the branch and tell the team in \`#releases\`.
2. Run the full suite twice; look at *flaky* tests before you retry them.
3. Update the changelog:
   - new features first
   - then fixes, with a link to [the tracker](https://tracker.example.com/board?view=open)

| step | who | done |
|------|-----|------|
| tag  | Ana | yes  |
| ship | Raj | no   |

> Nothing is shipped on a Friday.`,
  'JSON, pretty': JSON.stringify(
    {
      type: 'function',
      function: {
        name: 'find_connections',
        description: 'Finds train connections between two stations on a given day.',
        parameters: {
          type: 'object',
          properties: {
            from: { type: 'string', description: 'Name of the station to start from' },
            to: { type: 'string', description: 'Name of the destination' },
            departure: { type: 'string', format: 'date-time' },
            passengers: { type: 'integer', minimum: 1, maximum: 9, default: 1 },
            classes: { type: 'array', items: { enum: ['first', 'second', 'sleeper'] } },
          },
          required: ['from', 'to'],
          additionalProperties: false,
        },
      },
    },
    undefined,
    2,
  ),
  'JSON, minified': JSON.stringify({
    orders: Array.from({ length: 8 }, (_, index) => ({
      id: 10_452 + index * 37,
      customer: { name: ['Ines', 'Bruno', 'Mei', 'Tariq'][index % 4], vip: index % 3 === 0, phone: null },
      lines: [{ sku: `LAMP-${index}A`, quantity: index + 1, price: 19.95 + index }],
      status: index % 2 === 0 ? 'shipped' : 'open',
    })),
  }),
  'JSON within JSON': JSON.stringify({
    role: 'tool',
    content: JSON.stringify({ path: 'C:\\temp\\a.txt', lines: ['first "quoted" line\n', '\tsecond line\n'], ok: true }),
  }),
  YAML: `services:
  web:
    image: registry.example.com/shop/web:2.14.0
    restart: unless-stopped
    environment:
      LOG_LEVEL: info
      DATABASE_URL: postgres://shop@db:5432/shop
    ports: ["8080:80"]
    healthcheck: { test: ["CMD", "curl", "-f", "http://localhost/health"], interval: 30s, retries: 3 }`,
  'log lines': `2024-03-05T08:14:22.105Z INFO  [worker-3] job 88213 finished in 412 ms (attempt 1 of 3)
2024-03-05T08:14:22.310Z WARN  [worker-1] connection to 10.4.0.17:5432 lost: ECONNRESET, reconnecting in 200 ms
2024-03-05T08:14:23.001Z ERROR [http-12] GET /api/v2/items?page=9&sort=-price 500 1,204 bytes "Mozilla/5.0 (X11; Linux x86_64)"`,
  'CSV of numbers': Array.from({ length: 30 }, (_, row) =>
    [row, (row * 7919) % 1000, ((row * 104_729) % 100_000) / 100, -(row * 31) % 17, 1_700_000_000 + row * 3_600].join(),
  ).join('\n'),
  URLs: `https://www.example.org/catalogue/gardening/tools?sort=price&order=asc&page=3#reviews
https://cdn.example.net/img/2023/11/header-large@2x.webp
http://localhost:3000/api/v1/users/4821/orders?include=lines,customer&from=2024-01-01
https://docs.example.com/en/latest/getting-started/installation.html
mailto:orders@shop.example.com?subject=Order%2010452%20is%20late`,
  'mixed languages': `Please translate: „Guten Morgen, wie geht's?“ → 日本語: おはようございます、お元気ですか。 Русский: Доброе утро, как дела?
中文：早上好，你好吗？ Español: ¡Buenos días! ¿Cómo estás? العربية: صباح الخير. Then put the result in a JSON array, e.g. ["…", "…"].`,
  LaTeX: `\\begin{theorem}\\label{thm:bound} Let $f\\colon [a,b] \\to \\mathbb{R}$ be continuous. Then for every $\\varepsilon > 0$ there
is a polynomial $p$ with $\\sup_{x \\in [a,b]} |f(x) - p(x)| < \\varepsilon$, and $\\int_a^b p(x)\\,dx = \\sum_{k=0}^{n} w_k p(x_k)$.
\\end{theorem}`,
};
