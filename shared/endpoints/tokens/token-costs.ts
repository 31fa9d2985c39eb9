/** The kinds of UTF-16 code units for `estimateTokens`. All that has no kind of its own is `other`. */
export const none = 0;
export const digit = 1;
export const lower = 2;
export const upper = 3;
export const marked = 4;
export const punctuation = 5;
export const space = 6;
export const lineEnd = 7;
const other = 8;

type Kind = readonly [kind: number, from: number, to: number];

const kindRanges: readonly Kind[] = [
  [punctuation, 0x21, 0x7e],
  [digit, 0x30, 0x39],
  [upper, 0x41, 0x5a],
  [lower, 0x61, 0x7a],
  [space, 0x20, 0x20],
  [space, 0x09, 0x09],
  [lineEnd, 0x0a, 0x0a],
  [lineEnd, 0x0d, 0x0d],
  [marked, 0xc0, 0x24f],
  [marked, 0x1e00, 0x1eff],
];

/** Costs are hundredths of a token. `start` is added to a letter after a space, which is then often a token of its own. */
type Block = readonly [from: number, to: number, each: number, start?: number];

/**
 * Blocks of Unicode with the cost of a letter that is not a token of cl100k_base: such a letter is two tokens if a token begins with its
 * first two bytes, else three, and is almost never joined with the next one. o200k_base joins most letters here, down to a sixth of the
 * tokens. The figures are the lowest that are near cl100k_base for random letters and for the Universal Declaration of Human Rights in all
 * its languages. ASCII costs nothing here: its cost depends on its position.
 */
const blocks: readonly Block[] = [
  [0x0000, 0x001f, 100],
  [0x0020, 0x007e, 0],
  [0x007f, 0x00bf, 185],
  [0x00c0, 0x017f, 170],
  [0x0180, 0x024f, 190],
  [0x0250, 0x036f, 190],
  [0x0370, 0x03ff, 200, 35], // Greek
  [0x0400, 0x052f, 190, 20], // Cyrillic
  [0x0530, 0x058f, 168, 75], // Armenian
  [0x0590, 0x05ff, 190, 40], // Hebrew
  [0x0600, 0x06ff, 195, 20], // Arabic
  [0x0700, 0x07ff, 180, 75], // Syriac, Thaana, N'Ko
  [0x0900, 0x097f, 178, 40], // Devanagari
  [0x0980, 0x09ff, 164, 35], // Bengali
  [0x0a00, 0x0aff, 165, 30], // Gurmukhi, Gujarati
  [0x0b80, 0x0bff, 165, 45], // Tamil
  [0x0c00, 0x0cff, 165, 30], // Telugu, Kannada
  [0x0d00, 0x0dff, 167, 80], // Malayalam, Sinhala
  [0x0e00, 0x0e7f, 168, 80], // Thai
  [0x0e80, 0x0eff, 195, 55], // Lao
  [0x0f00, 0x0f7f, 200, 50], // Tibetan
  [0x0f80, 0x0fff, 240],
  [0x1000, 0x109f, 225, 35], // Myanmar
  [0x10a0, 0x10cf, 260],
  [0x10d0, 0x10ff, 168, 75], // Georgian
  [0x1200, 0x137f, 255], // Ethiopic
  [0x1780, 0x17ff, 183, 70], // Khmer
  [0x1e00, 0x1eff, 240],
  [0x2000, 0x20bf, 190], // punctuation, currencies
  [0x2100, 0x21bf, 190], // signs
  [0x2200, 0x227f, 190],
  [0x2500, 0x267f, 190],
  [0x2700, 0x27bf, 190],
  [0x3000, 0x30ff, 165, 50], // kana
  [0x3140, 0x317f, 185],
  [0x4e00, 0x9fff, 240, 50], // Han
  [0xac00, 0xd7a3, 240, 25], // Hangul
  [0xd800, 0xdfff, 190], // half of a code point beyond 0xffff
  [0xd83c, 0xd83f, 95], // emoji
  [0xff00, 0xff7f, 185], // full and half width
];
/** The rest is three tokens each. */
const eachElsewhere = 280;

/** Letters and signs beyond ASCII that are one token of cl100k_base, with their costs. Some are joined with each other. */
const oneToken: readonly (readonly [each: number, letters: string])[] = [
  [
    100,
    '\u0080\u0092\u00a0¡¢£¤¥¦§¨©ª«¬\u00ad®¯°±²³´µ¶·¹º»¼½¾¿×ə\u0300\u0301ɵ،\u200b\u200c\u200e‐‑–—―‘’‚“”„†•…‰′″›※₀₁₂€™←↑→↓−─━│═║╗╝█░' +
      '■►●★☆☴♀♥♪✔⟩\u2800\u3000、。《》「」『』【】〜\ufe0f！（），－．／０１２３４５６７８９：；＞？＾～･￥\ufffd',
  ],
  [
    72,
    'ÀÁÂÃÄÇÉÍÎÐÑÓÖÚÜßàáâãäåæçèéêëìíîïðñòóôõöøùúûüýāăąćčĐđēęěğīİıłńōőœřśşšţťūůűźżžơưșțạảấầẩậắặếềểệỉị' +
      'ọỏốồổỗộớờởợụủứửữự',
  ],
  [80, 'ЂАБВГДЕЗИКЛМНОПРСТУФЦЧЭЯабвгдежзийклмнопрстуфхцчшщъыьэюяёі'],
  [85, 'άέήίαβγδεηθικλμνοπρςστυφχωό'],
  [84, 'אבדהוחילמנערשתأإابةتثجحخدذرزسشصضطظعغفقكلمنهوىيَُِّْپکگی'],
  [84, 'ंकतनपमरलसहािीुेो्্নরািে্ிு்്'],
  [86, 'ាกขคงจชณดตถทนบปผพมยรลวสหอะัาำิีืุูเแใไ็่้์'],
  [
    95,
    'あいうえおかがきくけこごさざしじすせそただちっつてでとどなにのはばまみめもやよらりるれろわをんアィイウェエオ' +
      'カキクグコサシジスズセタダチッテデトドナニバパビピフブプペポマムメャュョラリルレロン・ー',
  ],
  [
    93,
    '一万三上下不与专业东两个中串为主么义之也书了事二于五些交产享京人亿今介从他付代以们件价任份企优会传但位体何余' +
      '作你使例供価保信修倍值停像元先入全公共关其具内円册再写出击分列则初利别到制前力功加务动動包化北区十午华单南即' +
      '历原去县参及友反发取变口只可台右号司合同名后向否含听启告员周命和品哈商問器四回因国图土在地场址型城基報場填增' +
      '声处备复外多大天失头女好如始子字存学安宋完定实审客家容密对导将小少尔就局展山岁州工左已市布常平年并广序库应店' +
      '度建开异式引张当录形影径待後得微心必志态思性总息您情意感成我或户所手打找技投报拉持指按换据排接推提播支收改放' +
      '政效数整文料断新方族无日时明易星是時景更最月有服期木未本机权束条来板构析果查标样核格案检模次款止正此步歳段每' +
      '比民気水求江汽没治法注活流海消清游源火点無然片版物特率环现球理生用由电男画界番登的监目直相省看県真知码确示社' +
      '票私种科秒称移程稍税稿空立站章端笑符第等签简算管箱米类系素索约级线组经结给络统编网置美老考者而联能自至色节英' +
      '藏行表装西要見见规视角解言計記話読计认议记论设证评试话询该详语误说请读调象责败账货购费资起超路身车转软载辑输' +
      '达过运近还这进连述退送选通速造連道邮部都配释里重量金钟钮链销错键长開間関门闭问间队阳陆限院除雅集雷需非面音页' +
      '项预频题额首验高黑',
  ],
  [
    90,
    '가간값개거게결경고공과구그글기나내는능니다당대도동되된드든들디라래러력로록료류른를름리만메면명목문미버번보복' +
      '부분비사산상색생서성세션소수스습시식신아야어에여열오와요용우운원위으은을음의이인일임입자작장재적전정제져조주' +
      '지진째체출치크태터턴트튼하한할함해호화환회',
  ],
];

/** From the third in a row on: both vocabularies have tokens of up to 128 spaces, 64 dashes or 2 of some letters. */
const repeated: readonly (readonly [each: number, units: string])[] = [
  [2, ' '],
  [3, '#*-./=_'],
  [5, '%+'],
  [9, '\t\n;~—'],
  [15, '!:<>AFXafox\u00a0…─'],
  [28, '$(),?@BCELMY\\^bcdey|█♀'],
  [34, '0123456789'],
  [52, '"&\'DGHIJKNOPQRSTUVWZ[]`ghijklmnpqrstuvwz{}·äеи–━═★\u3000、。・！'],
  [100, '\r'],
];
/** Of the other letters of the Latin alphabet. */
const markedRepeated = 100;

/**
 * By first letter, a to z: the letters that often follow it in languages with the Latin alphabet. These are 320 of the 676 pairs, and 98 %
 * of the letter pairs within the tokens of o200k_base. At any other pair, a token usually ends.
 */
const followers = [
  'abcdfghijklmnprstuvwxyz aeijlorsuy acehiklorstuy adegilorsuy abcdefghiklmnopqrstuvwxyz aefilortu aeghilnorstu',
  'aeilnortuy abcdefgjklmnopqrstuvxz aeou aeilnostu adefiklostuy abeimopsuy acdefghiklnostuvy',
  'abcdefghijklmnoprstuvwxy aehiloprstuy u abcdefgiklmnoprstuvy acehiklmopstuwy acehilmoprstuwy abcdefgiklmnprst',
  'aeio aehinors ceipt aeilmnops aeio',
];
/**
 * The 60 most frequent pairs in English, and in German, French, Spanish, Italian, Portuguese and Dutch: most words of tokens consist of
 * them.
 */
const frequentPairs = [
  'er en on de re ti in an al ar te nd he it es nt to ri io le th li di at ne or ic ch na el se un rt ig ra is ec as',
  'st ed ve ie me ha ci la so co ei be ta ll ge pe da pr ng ni ht ro',
];
export const frequentPairCost = 5;
const pairCost = 30;
const rarePairCost = 98;

/** By code unit: its kind; its cost, zero if it depends on the position; its cost from the third in a row on; the cost of a start. */
export const { kinds, costs, repeatCosts, starts } = tabulate();

/** The cost of the second of two letters, at 32 × the first + the second, each 1 to 26. */
export const pairCosts = tabulatePairs();

function tabulate() {
  const kinds = new Uint8Array(0x10000).fill(other);
  const costs = new Uint16Array(0x10000).fill(eachElsewhere);
  const starts = new Uint8Array(0x10000);
  for (const [kind, from, to] of kindRanges) kinds.fill(kind, from, to + 1);
  for (const [from, to, each, start = 0] of blocks) {
    costs.fill(each, from, to + 1);
    starts.fill(start, from, to + 1);
  }
  for (const ascii of '\t\n\r') costs[ascii.charCodeAt(0)] = 0;
  for (const [each, letters] of oneToken) for (const letter of letters) costs[letter.charCodeAt(0)] = each;
  const repeatCosts = costs.map((cost, unit) => (kinds[unit] === marked ? Math.max(markedRepeated, cost) : cost));
  for (const [each, units] of repeated) for (const unit of units) repeatCosts[unit.charCodeAt(0)] = each;
  return { kinds, costs, repeatCosts, starts };
}

function tabulatePairs(): Uint8Array {
  const costs = new Uint8Array(32 * 32).fill(rarePairCost);
  const at = (letter: string) => letter.charCodeAt(0) & 31;
  for (const [index, seconds] of followers.join(' ').split(' ').entries()) {
    for (const second of seconds) costs[(index + 1) * 32 + at(second)] = pairCost;
  }
  for (const [first = '', second = ''] of frequentPairs.join(' ').split(' ')) {
    costs[at(first) * 32 + at(second)] = frequentPairCost;
  }
  return costs;
}
