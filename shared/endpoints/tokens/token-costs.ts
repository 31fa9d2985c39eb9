/** The kinds of UTF-16 code units for `estimateTokens`. Each script is its own kind, numbered from `firstScript`. */
export const none = 0;
export const digit = 1;
export const lower = 2;
export const upper = 3;
export const marked = 4;
export const punctuation = 5;
export const space = 6;
export const lineEnd = 7;
export const other = 8;
const firstScript = 9;

/** The units outside of the scripts below. ASCII costs nothing here: its cost depends on its position. */
const letters: readonly (readonly [kind: number, cost: number, range: readonly [number, number]])[] = [
  [other, 100, [0x00, 0x1f]],
  [punctuation, 0, [0x21, 0x7e]],
  [digit, 0, [0x30, 0x39]],
  [upper, 0, [0x41, 0x5a]],
  [lower, 0, [0x61, 0x7a]],
  [other, 200, [0x7f, 0x7f]],
  [space, 0, [0x20, 0x20]],
  [space, 0, [0x09, 0x09]],
  [lineEnd, 0, [0x0a, 0x0a]],
  [lineEnd, 0, [0x0d, 0x0d]],
  [marked, 75, [0xc0, 0x17f]],
  [marked, 190, [0x180, 0x24f]],
  [marked, 80, [0x1e00, 0x1eff]],
];

/** Costs are hundredths of a token; `start` is added at the beginning of a word. */
type Script = { from: number; to: number; each: number; start?: number; frequent?: string; frequentEach?: number };

/**
 * Blocks of Unicode with the average cost of a letter. `frequent` are the letters that make up most text in the script's languages:
 * tokenizers have learned to join them, while random sequences of letters cost a token or more each. The figures were fitted to o200k_base.
 */
const scripts: readonly Script[] = [
  { from: 0x0080, to: 0x00bf, each: 100 },
  { from: 0x0250, to: 0x036f, each: 200 },
  { from: 0x0370, to: 0x03ff, start: 50, each: 90, frequent: 'αοιετσνηρ', frequentEach: 20 },
  { from: 0x0400, to: 0x045f, start: 55, each: 70, frequent: 'оеаинтсрвлкм', frequentEach: 15 },
  { from: 0x0460, to: 0x052f, start: 50, each: 180 },
  { from: 0x0530, to: 0x058f, start: 50, each: 80, frequent: 'աեինրոկմտվ', frequentEach: 25 },
  { from: 0x0590, to: 0x05ff, start: 50, each: 80, frequent: 'יוהלארמתבנש', frequentEach: 25 },
  { from: 0x0600, to: 0x06ff, start: 40, each: 95, frequent: 'ايلنمورتبهعی', frequentEach: 15 },
  { from: 0x0700, to: 0x08ff, each: 220 },
  { from: 0x0900, to: 0x097f, start: 25, each: 105, frequent: 'ािे्रकनीसहतमलोपं', frequentEach: 15 },
  { from: 0x0980, to: 0x09ff, start: 40, each: 100, frequent: 'া্েরিনকবতসলমপযুয়', frequentEach: 15 },
  { from: 0x0a00, to: 0x0a7f, start: 20, each: 100, frequent: 'ਾਿੀਰਨਸਕਦਤਹੇਲਮਵਪ', frequentEach: 25 },
  { from: 0x0a80, to: 0x0aff, start: 20, each: 100, frequent: 'ાર્ેીતનવમકંોસયપ', frequentEach: 25 },
  { from: 0x0b00, to: 0x0b7f, each: 160 },
  { from: 0x0b80, to: 0x0bff, start: 20, each: 140, frequent: '்ாிுகதபரடமலன', frequentEach: 20 },
  { from: 0x0c00, to: 0x0c7f, start: 20, each: 100, frequent: '్ిారునంలకతపసదటవమయే', frequentEach: 25 },
  { from: 0x0c80, to: 0x0cff, start: 20, each: 100, frequent: '್ಿರಾದುನತೆಕಲಗಸಂವಮಯ', frequentEach: 25 },
  { from: 0x0d00, to: 0x0d7f, start: 20, each: 100, frequent: '്ിനകതുരാടയപവസമ', frequentEach: 25 },
  { from: 0x0d80, to: 0x0dff, start: 20, each: 130 },
  { from: 0x0e00, to: 0x0e7f, each: 110, frequent: 'านรกอเ่ง้มยลวดทสีิั', frequentEach: 28 },
  { from: 0x0e80, to: 0x0fff, each: 230 },
  { from: 0x1000, to: 0x109f, each: 160 },
  { from: 0x10a0, to: 0x10ff, start: 55, each: 90, frequent: 'აიერსომლნვდთ', frequentEach: 25 },
  { from: 0x1100, to: 0x11ff, each: 300 },
  { from: 0x1200, to: 0x177f, each: 250 },
  { from: 0x1780, to: 0x17ff, each: 150, frequent: '្ានរតកបមសុេយល', frequentEach: 50 },
  { from: 0x1800, to: 0x1dff, each: 260 },
  { from: 0x1f00, to: 0x1fff, each: 230 },
  { from: 0x2000, to: 0x200a, each: 170 },
  { from: 0x200b, to: 0x206f, start: 40, each: 100 },
  { from: 0x2070, to: 0x2dff, each: 250 },
  { from: 0x3000, to: 0x303f, each: 100 },
  {
    from: 0x3040,
    to: 0x30ff,
    start: 10,
    each: 115,
    frequent: 'のいしてにとをたるがはでなっかすまれらりンスルトー',
    frequentEach: 55,
  },
  {
    from: 0x4e00,
    to: 0x9fff,
    start: 25,
    each: 190,
    frequent:
      '的一是不了在人有我他这個们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事成方多经么去法' +
      '学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日月高這們來為國說時會對過發後經麼學現當沒動還進樣開從實與問' +
      '无体手长把机民第公此已工使情明性知全三又关点正业外将两间由问很最重并物应战向头文政美相见被利什二等产或新己制身果加西斯特内信口回写' +
      '请給給名数字本間語',
    frequentEach: 40,
  },
  {
    from: 0xac00,
    to: 0xd7a3,
    start: 15,
    each: 215,
    frequent:
      '이다는에을가를의고한지로은도하서사아어기나리그인들자시해일니라대정게요있스습구부수장전주보과오만음으면생없제여성안',
    frequentEach: 20,
  },
  { from: 0xd800, to: 0xd83b, each: 200 },
  { from: 0xd83c, to: 0xd83f, each: 140 },
  { from: 0xd840, to: 0xdfff, each: 200 },
  { from: 0xff00, to: 0xff60, each: 150 },
];

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

/** By code unit: its kind, and its cost (zero if it depends on the position); by kind: the cost of the start of a word. */
export const { kinds, costs, starts } = tabulate();

/** 1 for each pair of letters that often occur together, at 32 × the first + the second, each 1 to 26. */
export const joined = tabulatePairs();

function tabulate() {
  const kinds = new Uint8Array(0x10000).fill(other);
  const costs = new Uint16Array(0x10000).fill(300);
  const starts = new Uint16Array(firstScript + scripts.length);
  const set = (kind: number, cost: number, [from, to]: readonly [number, number]) => {
    kinds.fill(kind, from, to + 1);
    costs.fill(cost, from, to + 1);
  };
  for (const [kind, cost, range] of letters) set(kind, cost, range);
  for (const [index, { from, to, each, start = 0, frequent = '', frequentEach = each }] of scripts.entries()) {
    set(firstScript + index, each, [from, to]);
    starts[firstScript + index] = start;
    for (const letter of frequent) costs[letter.charCodeAt(0)] = frequentEach;
  }
  return { kinds, costs, starts };
}

function tabulatePairs(): Uint8Array {
  const pairs = new Uint8Array(32 * 32);
  for (const [index, seconds] of followers.join(' ').split(' ').entries()) {
    for (const second of seconds) pairs[(index + 1) * 32 + (second.charCodeAt(0) & 31)] = 1;
  }
  return pairs;
}
