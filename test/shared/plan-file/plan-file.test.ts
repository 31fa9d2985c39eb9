import { createHash } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import test from 'ava';
import { parsePlanFile } from '../../../shared/plan-file/plan-file.ts';
import { planText } from '../../support/plan-text.ts';

type Change = Parameters<typeof planText>[0];

function faultsOf(text: string): string[] {
  const parsed = parsePlanFile(text);
  return 'issues' in parsed ? parsed.issues.map(({ path, message }) => `${path}: ${message}`) : [];
}

function placedFaultsOf(text: string): string[] {
  const parsed = parsePlanFile(text);
  return 'issues' in parsed ? parsed.issues.map(({ path, line, column }) => `${line}:${column} ${path}`) : [];
}

const faultsWith = (change: Change) => faultsOf(planText(change));

function planFileOf(text: string) {
  const parsed = parsePlanFile(text);
  if ('issues' in parsed) throw new Error(JSON.stringify(parsed.issues));
  return parsed.planFile;
}

const documented = `
default_plan: free
guest_calls_per_minute: 60
guest_mints_per_hour: 20
guest_mints_per_hour_total: 5000
guest_days_kept: 400
usage_months_kept: 24
media_hosts: [media.example.com, '*.cdn.example.com']
plans:
  free:         { requests_per_minute: 20, tokens_per_minute: 60000, tokens_per_month: 1000000, overage: operator, overage_tokens_per_month: 500000, requests_at_once: 4, batch_requests_at_once: 8, batch_tokens_waiting: 2000000, priority: 10, model_tiers: [guest, standard] }
  guest-device: { requests_per_minute: 5, tokens_per_minute: 20000, tokens_per_month: 200000, requests_per_day: 50, requests_at_once: 1, priority: 100, model_tiers: [guest] }
models:
  small-chat: { tier: guest, pool: default, backends: [onprem-a, cloud], output_tokens_max: 4096, extra_fields: [default, guided_regex], extra_tools: [mcp] }
backends:
  onprem-a: { url: http://127.0.0.1:8084/v1, location: on-prem, requests_at_once: 64, whole_as_stream: false, cache_salt: true, priority: true, relay_messages: false }
  cloud:    { url: https://api.example.com/v1, location: cloud, model: upstream-model-name, api_key_env: CLOUD_API_KEY, output_limit_field: max_completion_tokens }
batch:        { window_s: 86400, requests_max: 50000, file_bytes_max: 104857600, account_bytes_max: 10737418240, files_kept_days: 30 }
timeouts:     { connect_ms: 2000, first_token_ms: 30000, idle_ms: 30000, request_ms: 600000, queue_ms: 30000 }
`;

test('the documented plan file is parsed, with names unchanged and settings in camel case', (t) => {
  const plan = planFileOf(documented);
  t.deepEqual(JSON.parse(JSON.stringify(plan)), {
    defaultPlan: 'free',
    guestCallsPerMinute: 60,
    guestMintsPerHour: 20,
    guestMintsPerHourTotal: 5_000,
    guestDaysKept: 400,
    usageMonthsKept: 24,
    currency: 'USD',
    mediaHosts: ['media.example.com', '*.cdn.example.com'],
    aliases: {},
    plans: {
      free: {
        requestsPerMinute: 20,
        tokensPerMinute: 60_000,
        tokensPerMonth: 1_000_000,
        overage: 'operator',
        overageTokensPerMonth: 500_000,
        requestsAtOnce: 4,
        batchRequestsAtOnce: 8,
        batchTokensWaiting: 2_000_000,
        priority: 10,
        modelTiers: ['guest', 'standard'],
      },
      'guest-device': {
        requestsPerMinute: 5,
        tokensPerMinute: 20_000,
        tokensPerMonth: 200_000,
        overage: 'self-service',
        requestsPerDay: 50,
        requestsAtOnce: 1,
        priority: 100,
        modelTiers: ['guest'],
      },
    },
    models: {
      'small-chat': {
        tier: 'guest',
        pool: 'default',
        backends: ['onprem-a', 'cloud'],
        endpoints: ['chat'],
        outputTokensMax: 4_096,
        extraFields: ['default', 'guided_regex'],
        extraTools: ['mcp'],
      },
    },
    backends: {
      'onprem-a': {
        url: 'http://127.0.0.1:8084/v1',
        location: 'on-prem',
        requestsAtOnce: 64,
        wholeAsStream: false,
        cacheSalt: true,
        priority: true,
        relayMessages: false,
      },
      cloud: {
        url: 'https://api.example.com/v1',
        location: 'cloud',
        model: 'upstream-model-name',
        apiKeyEnv: 'CLOUD_API_KEY',
        outputLimitField: 'max_completion_tokens',
      },
    },
    batch: {
      windowS: 86_400,
      requestsMax: 50_000,
      fileBytesMax: 104_857_600,
      accountBytesMax: 10_737_418_240,
      accountFilesMax: 10_000,
      uploadBytesPerSecondMin: 1_024,
      filesKeptDays: 30,
    },
    timeouts: { connectMs: 2_000, firstTokenMs: 30_000, idleMs: 30_000, requestMs: 600_000, queueMs: 30_000 },
  });
});

test('an issue never quotes the text, which can have a password in an address', (t) => {
  const address = 'http://user:secret@127.0.0.1/v1';
  for (const text of [
    `backends:\n  a: { url: "${address}", location: [ }`,
    `backends:\n  a:\n    url: ${address}\n   location: x`,
    `backends:\n  a: "${address}`,
    `a: { url: "${address}" }\na: 1`,
  ]) {
    const faults = faultsOf(text);
    t.true(faults.length > 0);
    t.notRegex(faults.join(), /secret|\n/);
    t.regex(faults[0] ?? '', / at line \d+, column \d+$/);
  }
});

test('a text that is too long is not parsed', (t) => {
  const padded = (length: number) => planText().padEnd(length, ' ');
  t.deepEqual(faultsOf(padded(262_145)), [': is longer than 262144 characters']);
  t.deepEqual(faultsOf(padded(262_144)), []);
});

test('an omitted field has its documented default, and an omitted limit is no limit', (t) => {
  const short = planFileOf(planText());
  const long = planFileOf(documented);
  t.deepEqual(short.batch, long.batch);
  t.deepEqual(short.timeouts, long.timeouts);
  t.like(short, { guestCallsPerMinute: 60, guestMintsPerHour: 20, guestDaysKept: 400 });
  t.is(short.guestMintsPerHourTotal, undefined);
  t.is(short.usageMonthsKept, 24);
  t.like(short.plans.free, { priority: 1_000, overage: 'self-service' });
  t.deepEqual(Object.keys(short.plans.free ?? {}).sort(), ['modelTiers', 'overage', 'priority', 'requestsPerMinute']);
});

test('by default no media host is allowed, and the default lists of fields and tools apply', (t) => {
  const plan = planFileOf(planText());
  t.deepEqual(plan.mediaHosts, []);
  t.false('extraFields' in (plan.models['small-chat'] ?? {}));
  t.false('extraTools' in (plan.models['small-chat'] ?? {}));
});

test('an invalid host, an invalid field name and a switch that is not a boolean are named', (t) => {
  const cases: [Change, string][] = [
    [
      (plan) => Object.assign(plan, { media_hosts: ['example.com', '10.0.0.1'] }),
      'media_hosts[1]: expected "*", "*.example.com"',
    ],
    [(plan) => Object.assign(plan, { media_hosts: 'example.com' }), 'media_hosts: expected array'],
    [
      ({ models }) => Object.assign(models['small-chat'], { extra_fields: ['default', 'a b'] }),
      'models.small-chat.extra_fields[1]: ',
    ],
    [({ models }) => Object.assign(models['small-chat'], { extra_tools: [1] }), 'models.small-chat.extra_tools[0]: '],
    [
      ({ backends }) => Object.assign(backends.cloud, { cache_salt: 'yes' }),
      'backends.cloud.cache_salt: expected boolean',
    ],
    [({ backends }) => Object.assign(backends.cloud, { priority: 1 }), 'backends.cloud.priority: expected boolean'],
    [
      ({ plans }) => Object.assign(plans.free, { overage: true }),
      'plans.free.overage: invalid option: expected one of',
    ],
    [
      ({ plans }) => Object.assign(plans.free, { tokens_per_month: 1, overage_tokens_per_month: 0 }),
      'plans.free.overage_tokens_per_month: too small: expected number to be >0',
    ],
  ];
  for (const [change, fault] of cases) {
    const faults = faultsWith(change);
    t.is(faults.length, 1);
    t.true(faults[0]?.startsWith(fault), faults[0]);
  }
});

test('names are checked across sections, and all missing ones are listed', (t) => {
  t.deepEqual(
    faultsWith((plan) => {
      plan.default_plan = 'gold';
      plan.models['small-chat'].backends = ['nowhere', 'cloud', 'toString'];
    }),
    [
      'default_plan: there is no plan "gold"',
      'models.small-chat.backends[0]: there is no backend "nowhere"',
      'models.small-chat.backends[2]: there is no backend "toString"',
    ],
  );
});

test('a bound of overage needs a quota', (t) => {
  const withPlan = (limits: object) => faultsWith(({ plans }) => Object.assign(plans.free, limits));
  t.deepEqual(withPlan({ overage_tokens_per_month: 5 }), [
    'plans.free.overage_tokens_per_month: is only allowed with tokens_per_month',
  ]);
  t.deepEqual(withPlan({ overage_tokens_per_month: 5, tokens_per_month: 5 }), []);
  t.deepEqual(withPlan({ overage: 'operator' }), []);
});

test('all issues are reported at once, also those across sections, however wrong the shape of other parts is', (t) => {
  const text = `default_plan: gold
plans:
  free: { model_tiers: guest, requests_per_minute: 0 }
  guest-device: { model_tiers: [guest, 7, pro] }
models:
  small-chat: { pool: default, backends: [nowhere, 5, cloud] }
  large-chat: none
aliases: { small-chat: tiny-chat, one: 1 }
backends:
  cloud: { url: 1 }
limits: {}
`;
  t.deepEqual(placedFaultsOf(text), [
    '1:1 default_plan',
    '3:11 plans.free.model_tiers',
    '3:31 plans.free.requests_per_minute',
    '4:3 plans.guest-device.requests_per_day',
    '4:19 plans.guest-device.model_tiers',
    '4:40 plans.guest-device.model_tiers[1]',
    '6:3 models.small-chat.tier',
    '6:3 models.small-chat.output_tokens_max',
    '6:43 models.small-chat.backends[0]',
    '6:52 models.small-chat.backends[1]',
    '7:3 models.large-chat',
    '8:12 aliases.small-chat',
    '8:12 aliases.small-chat',
    '8:35 aliases.one',
    '10:3 backends.cloud.location',
    '10:12 backends.cloud.url',
    '11:1 limits',
  ]);
});

test('the place of an issue is that of its key, of its item, or of the closest part around what is missing', (t) => {
  t.deepEqual(placedFaultsOf('# A comment\nplans: {}\n')[0], '2:1 default_plan');
  const sameByAlias = 'plans:\n  free: &p { model_tiers: [guest] }\n  guest-device: *p\n';
  t.true(placedFaultsOf(sameByAlias).includes('3:3 plans.guest-device.requests_per_day'));
});

test('the generation of a plan file is that of its text', (t) => {
  const generation = (text: string) => {
    const parsed = parsePlanFile(text);
    return 'generation' in parsed ? parsed.generation : undefined;
  };
  const text = planText();
  t.is(generation(text), createHash('sha256').update(text).digest('hex').slice(0, 12));
  t.not(generation(`${text}# a comment\n`), generation(text));
});

test('the guest plan is required, with a daily limit and the guest tier only', (t) => {
  const guest = 'plans.guest-device';
  const cases: [Change, string][] = [
    [({ plans }) => Reflect.deleteProperty(plans, 'guest-device'), `${guest}: this plan is required`],
    [
      ({ plans }) => Reflect.deleteProperty(plans['guest-device'], 'requests_per_day'),
      `${guest}.requests_per_day: is required`,
    ],
    [
      ({ plans }) => plans['guest-device'].model_tiers.push('standard'),
      `${guest}.model_tiers: "guest" is the only tier a guest can have`,
    ],
  ];
  for (const [change, fault] of cases) {
    const faults = faultsWith(change);
    t.is(faults.length, 1);
    t.true(faults[0]?.startsWith(fault), faults[0]);
  }
});

test('an unknown field is named by its path, in every section', (t) => {
  const sections: [string, Change][] = [
    ['plan', (plan) => Object.assign(plan, { plan: 1 })],
    ['plans.free.request_per_minute', ({ plans }) => Object.assign(plans.free, { request_per_minute: 1 })],
    ['models.small-chat.timeout', ({ models }) => Object.assign(models['small-chat'], { timeout: 1 })],
    ['backends.cloud.key', ({ backends }) => Object.assign(backends.cloud, { key: 'sk' })],
    ['batch.window', (plan) => Object.assign(plan, { batch: { window: 1 } })],
    ['timeouts.connect', (plan) => Object.assign(plan, { timeouts: { connect: 1 } })],
  ];
  for (const [path, change] of sections) t.deepEqual(faultsWith(change), [`${path}: is not known`]);
});

test('an undefined alias and a merge of a value that is not a map are named', (t) => {
  t.regex(faultsOf('default_plan: *nothing\n')[0] ?? '', /alias.*nothing/);
  t.deepEqual(faultsOf('%YAML 1.1\n---\n<<: 1\n'), ['<<: Merge sources must be maps or map aliases']);
});

test('an empty key is written as ""', (t) => {
  t.true(faultsOf('"": 1\n').includes('"": is not known'));
  t.true(
    faultsWith((plan) => Object.assign(plan.backends.cloud, { '': 1 })).includes('backends.cloud."": is not known'),
  );
});

test('a value of the wrong type is named by its path', (t) => {
  const wrong: [string, Change][] = [
    ['plans.free.requests_per_minute', ({ plans }) => Object.assign(plans.free, { requests_per_minute: 0 })],
    ['plans.free.requests_per_minute', ({ plans }) => Object.assign(plans.free, { requests_per_minute: 1.5 })],
    ['plans.free.priority', ({ plans }) => Object.assign(plans.free, { priority: 2_097_152 })],
    ['plans.free.model_tiers', ({ plans }) => Object.assign(plans.free, { model_tiers: [] })],
    ['models.small-chat.pool', ({ models }) => Object.assign(models['small-chat'], { pool: 'a:b' })],
    ['models.small-chat.backends', ({ models }) => Object.assign(models['small-chat'], { backends: [] })],
    ['backends.cloud.url', ({ backends }) => Object.assign(backends.cloud, { url: 'ftp://example.com' })],
    ['backends.cloud.location', ({ backends }) => Object.assign(backends.cloud, { location: 'moon' })],
    ['backends.cloud.api_key_env', ({ backends }) => Object.assign(backends.cloud, { api_key_env: 'sk-live 1' })],
    [
      'backends.cloud.output_limit_field',
      ({ backends }) => Object.assign(backends.cloud, { output_limit_field: 'n_predict' }),
    ],
    ['guest_days_kept', (plan) => Object.assign(plan, { guest_days_kept: 61 })],
    ['guest_calls_per_minute', (plan) => Object.assign(plan, { guest_calls_per_minute: 0 })],
    ['guest_mints_per_hour_total', (plan) => Object.assign(plan, { guest_mints_per_hour_total: 0 })],
    ['batch.account_bytes_max', (plan) => Object.assign(plan, { batch: { account_bytes_max: 0 } })],
    ['batch.account_bytes_max', (plan) => Object.assign(plan, { batch: { account_bytes_max: 2 ** 50 + 1 } })],
    ['batch.requests_max', (plan) => Object.assign(plan, { batch: { requests_max: 50_001 } })],
    ['timeouts.queue_ms', (plan) => Object.assign(plan, { timeouts: { queue_ms: 86_400_001 } })],
  ];
  for (const [path, change] of wrong) {
    const faults = faultsWith(change);
    t.is(faults.length, 1, path);
    t.true(faults[0]?.startsWith(`${path}: `), faults[0]);
  }
  t.true(faultsWith(({ models }) => Object.assign(models, { 'a b': models['small-chat'] })).length > 0);
});

test('text that is not YAML is rejected by its line, and so is a duplicate key', (t) => {
  t.regex(faultsOf('default_plan: free\nplans: [').join(), /line 2/);
  t.regex(faultsOf('a: 1\nb: 2\na: 3').join(), /unique.*line 3/s);
  t.regex(faultsOf('default_plan: *nothing').join(), /alias/i);
  for (const text of ['', 'free', '[]', '42', 'a: 1\n---\nb: 2']) t.true(faultsOf(text).length > 0, text);
});

test('every repeated key is a fault at its own place, in lists and maps of every notation', (t) => {
  const repeated = (line: number, column: number) =>
    `: keys of a map must be unique, and one is repeated at line ${line}, column ${column}`;
  t.deepEqual(faultsOf('a: {b: 1, b: 2}\nc:\n  - "d": 1\n    d: 2\n1: x\n1: y\n'), [
    repeated(6, 1),
    repeated(1, 11),
    repeated(4, 5),
  ]);
});

test.serial('a key is not compared with every key before it', (t) => {
  const { some } = Array.prototype;
  let compared = 0;
  // The parser finds a repeated key with this method.
  Array.prototype.some = function countedSome(this: unknown[], isFound, thisArg) {
    return some.call(this, (...args) => {
      compared += 1;
      return isFound.apply(thisArg, args);
    });
  };
  try {
    t.true(faultsOf(Array.from({ length: 3_000 }, (_, index) => `k${index}: 1`).join('\n')).length > 0);
  } finally {
    Array.prototype.some = some;
  }
  t.true(compared < 30_000, `${compared} comparisons`);
});

test('a file of another format yields at most a hundred faults, each of a few lines at most and with its place', (t) => {
  const text = 'x'.repeat(5_000);
  for (const file of [
    `default_plan: *${text}`,
    `"${text}": 1`,
    `a: 1\n${text}`,
    `${text}: [}\n`,
    'a: [}\n'.repeat(500),
    '['.repeat(5_000),
  ]) {
    const faults = faultsOf(file);
    t.true(faults.length > 0 && faults.length <= 100, `${faults.length} faults`);
    for (const fault of faults) {
      t.true(fault.length <= 1_300, `${fault.length} characters`);
      t.regex(fault, /line \d|alias|is not known|is required|received undefined/);
    }
  }
});

test('each key that is a list or a map is a fault with its place, also if such keys are within each other', (t) => {
  const fault = (line: number, column: number) =>
    `: a key is a list or a map, not a text, at line ${line}, column ${column}`;
  t.deepEqual(faultsOf('? [a, b]\n: c\n'), [fault(1, 3)]);
  t.deepEqual(faultsOf('plans: {\n  [free]: x,\n  {pro: y}: z\n}'), [fault(2, 3), fault(3, 3)]);
  t.deepEqual(faultsOf('? '.repeat(100)), [fault(1, 3)]);
});

test.serial('a key that is an alias of a list is a fault, and causes no process warning', async (t) => {
  const warnings: Error[] = [];
  const note = (warning: Error) => warnings.push(warning);
  process.on('warning', note);
  t.true(faultsOf('default_plan: &a [b]\n? *a\n: c\n').includes('*a: is not known'));
  await turn();
  process.off('warning', note);
  t.deepEqual(
    warnings.filter(({ message }) => message.includes('*a')),
    [],
  );
});

test('names that every object inherits are not found unless the plan file defines them', (t) => {
  const { plans, models, backends } = planFileOf(planText());
  for (const section of [plans, models, backends] as Record<string, unknown>[]) {
    for (const name of ['constructor', '__proto__', 'toString', 'hasOwnProperty']) t.is(section[name], undefined, name);
  }
  const named = planFileOf(planText((plan) => Object.assign(plan.models, { constructor: plan.models['small-chat'] })));
  t.like(named.models.constructor, { tier: 'guest' });
});

test('names keep their underscores, and the parsed plan file is frozen', (t) => {
  const plan = planFileOf(
    planText(({ models, plans }) => {
      Object.assign(models, { small_chat_v2: models['small-chat'] });
      Object.assign(plans, { models: plans.free });
    }),
  );
  t.is(plan.models.small_chat_v2?.outputTokensMax, 4_096);
  t.is(plan.plans.models?.requestsPerMinute, 20);
  t.true(Object.isFrozen(plan.models.small_chat_v2?.backends));
  t.throws(() => Object.assign(plan.plans, { gold: {} }));
});

const faultsOfPrices = (prices: string) => faultsOf(`${planText()}\n${prices}\n`);
const pricesOf = (prices: string) => planFileOf(`${planText()}\n${prices}\n`);

test('prices are read digit by digit and in the order of their days, and belong to any model', (t) => {
  const { prices, currency } = pricesOf(`currency: EUR
prices:
  gone_model: [{ from: 2026-07-01, prompt: 0.1, completion: 123456789.123456789 }, { from: 2026-01-01, prompt: "3.50", cached: 0, completion: 1.0 }]
  small-chat: &same [{ from: "2024-02-29", prompt: 0.000000001, completion: 0 }]
  other: *same`);
  t.is(currency, 'EUR');
  t.deepEqual(JSON.parse(JSON.stringify(prices)), {
    gone_model: [
      { from: '2026-01-01', prompt: '3.50', cached: '0', completion: '1.0' },
      { from: '2026-07-01', prompt: '0.1', completion: '123456789.123456789' },
    ],
    'small-chat': [{ from: '2024-02-29', prompt: '0.000000001', completion: '0' }],
    other: [{ from: '2024-02-29', prompt: '0.000000001', completion: '0' }],
  });
  t.true(Object.isFrozen(prices?.other?.[0]));
  t.is(prices?.constructor, undefined);
});

test('prices in any order are sorted by their days', (t) => {
  for (const months of [
    ['03', '01', '02'],
    ['02', '03', '01'],
    ['01', '02', '03'],
  ]) {
    const list = months.map((month) => `{ from: 2026-${month}-01, prompt: ${Number(month)}, completion: 1 }`);
    const { prices } = pricesOf(`prices: { m: [${list}] }`);
    t.deepEqual(
      prices?.m?.map(({ from, prompt }) => [from, prompt]),
      [
        ['2026-01-01', '1'],
        ['2026-02-01', '2'],
        ['2026-03-01', '3'],
      ],
    );
  }
});

test('without prices there are none, and the currency is USD', (t) => {
  const plan = planFileOf(planText());
  t.is(plan.prices, undefined);
  t.is(plan.currency, 'USD');
});

test('each invalid price is named: too many digits, no decimal number, no day, a day twice, an alias', (t) => {
  const decimal = 'expected a decimal number such as 0.15, at most 9 digits before and after the point';
  const price = (prompt: string) =>
    faultsOfPrices(`prices: { m: [{ from: 2026-01-01, prompt: ${prompt}, completion: 1 }] }`);
  for (const wrong of [
    '0.1500000000000000055',
    '1e-3',
    '-1',
    '.5',
    '0x10',
    '.inf',
    '1_000',
    '""',
    '"1,5"',
    '1234567890',
  ])
    t.deepEqual(price(wrong), [`prices.m[0].prompt: ${decimal}`], wrong);
  t.deepEqual(price('true'), ['prices.m[0].prompt: expected a decimal number']);
  t.deepEqual(faultsOfPrices('prices: { m: [{ from: 2026-02-29, prompt: 1 }] }'), [
    'prices.m[0].completion: expected a decimal number',
    'prices.m[0].from: expected a day as YYYY-MM-DD',
  ]);
  const twice = '{ from: 2026-01-01, prompt: 1, completion: 1 }';
  t.deepEqual(faultsOfPrices(`prices: { m: [${twice}, ${twice}] }`), [
    'prices.m[1].from: two prices begin on this day',
  ]);
  t.deepEqual(faultsOfPrices('prices: { m: [] }').length, 1);
  t.deepEqual(faultsOfPrices(`prices: { m: [{ from: 2026-01-01, prompt: 1, completion: 1, image: 1 }] }`), [
    'prices.m[0].image: is not known',
  ]);
  t.deepEqual(faultsOfPrices(`aliases: { old: small-chat }\nprices: { old: [${twice}] }`), [
    'prices.old: an alias has no prices, its model has',
  ]);
  for (const currency of ['usd', 'US', 'EURO', '5'])
    t.deepEqual(faultsOfPrices(`currency: ${currency}`).length, 1, currency);
});

test('the affinity of a model and the weight of a backend, within their bounds', (t) => {
  const of = (affinity: unknown, weight: unknown) =>
    planText(({ models, backends }) => {
      Object.assign(models['small-chat'], { affinity });
      Object.assign(backends.cloud, { weight });
    });
  for (const affinity of ['prefix', 'account', 'none'] as const) {
    t.is(planFileOf(of(affinity, 0)).models['small-chat']?.affinity, affinity);
  }
  for (const weight of [0, 1, 100]) t.is(planFileOf(of('none', weight)).backends.cloud?.weight, weight);
  t.deepEqual(
    [101, -1, 0.5, '1'].map((weight) => faultsOf(of('none', weight))[0]?.split(':')[0]),
    Array.from({ length: 4 }, () => 'backends.cloud.weight'),
  );
  t.regex(faultsOf(of('key', 1))[0] ?? '', /^models\.small-chat\.affinity: .*"prefix"/);
});

test('the key, the headers, the certificates and the health test of a backend', (t) => {
  const settings = {
    ...{ url: 'https://a/v1', location: 'cloud', api_key_file: '/run/secrets/key', api_key_header: 'api-key' },
    ...{ headers: { 'x-team_name': 'a b' }, query: { 'api-version': '2026-01-01', $filter: '' }, health: '/up?x=1' },
    ...{ ca_file: 'ca.pem', client_cert_file: 'cert.pem', client_key_file: 'key.pem' },
  };
  const { $filter: _, ...query } = settings.query;
  const { cloud } = planFileOf(
    planText(({ backends }) => Object.assign(backends, { cloud: { ...settings, query } })),
  ).backends;
  t.like(cloud, { apiKeyFile: '/run/secrets/key', apiKeyHeader: 'api-key', health: '/up?x=1', caFile: 'ca.pem' });
  t.deepEqual({ ...cloud?.headers }, { 'x-team_name': 'a b' });
  t.deepEqual({ ...cloud?.query }, { 'api-version': '2026-01-01' });
});

test('fixed headers and parameters have no secrets, and headers none that the service sets', (t) => {
  const issuesOf = (fixed: object) => faultsWith(({ backends }) => Object.assign(backends.cloud, fixed));
  const secret = 'may hold a secret: use api_key_header with api_key_env or api_key_file';
  for (const name of [
    ...['authorization', 'Authorization', 'x-api-key', 'api-key', 'cookie', 'proxy-authorization', 'x-auth-token'],
    ...['ocp-apim-subscription-key', 'x-goog-api-key', 'x-amz-security-token', 'x-client-secret', 'x-auth', 'apikey'],
    ...['bearer', 'accesstoken', 'x-jwt', 'x-session'],
  ])
    t.deepEqual(issuesOf({ headers: { [name]: 'x' } }), [`backends.cloud.headers.${name}: ${secret}`], name);
  for (const name of ['key', 'api_key', 'access_token', 'sig', 'code', 'password'])
    t.deepEqual(issuesOf({ query: { [name]: 'x' } }), [`backends.cloud.query.${name}: ${secret}`], name);
  for (const name of ['host', 'content-type', 'x-request-id', 'traceparent', 'connection', 'te', 'transfer-encoding'])
    t.deepEqual(
      issuesOf({ headers: { [name]: 'x' } }),
      [`backends.cloud.headers.${name}: is set by the service`],
      name,
    );
  for (const fixed of [
    ...[{ 'X-Team': 'x' }, { 'x team': 'x' }, { 'x-team': 'a\r\nb: c' }, { 'x-team': ' a' }, { 'x-team': 'ä' }],
    ...[{ 'x-team': '' }, { 'x-team': 'a'.repeat(1_025) }, { 'x-team': 1 }],
    Object.fromEntries(Array.from({ length: 17 }, (_, index) => [`x-${index}`, 'x'])),
  ])
    t.is(issuesOf({ headers: fixed }).length, 1, JSON.stringify(fixed));
  t.is(issuesOf({ query: { 'a&b': 'x' } }).length, 1);
  t.deepEqual(
    issuesOf({ headers: { 'x-keyboard': 'a', 'x-tokenizer': 'b', 'x-author': 'c' }, query: { v: 'ä&=' } }),
    [],
  );
});

test('settings of a key or of TLS that exclude or need each other are named', (t) => {
  const issuesOf = (settings: object) => faultsWith(({ backends }) => Object.assign(backends.cloud, settings));
  const at = (field: string, message: string) => `backends.cloud.${field}: ${message}`;
  t.deepEqual(issuesOf({ api_key_file: 'k' }), [at('api_key_file', 'is not allowed with api_key_env')]);
  t.deepEqual(issuesOf({ api_key_env: undefined, api_key_header: 'api-key' }), [
    at('api_key_header', 'needs api_key_env or api_key_file'),
  ]);
  t.deepEqual(issuesOf({ client_cert_file: 'c' }), [at('client_cert_file', 'needs client_key_file')]);
  t.deepEqual(issuesOf({ client_key_file: 'c' }), [at('client_key_file', 'needs client_cert_file')]);
  t.deepEqual(issuesOf({ url: 'http://a/v1', ca_file: 'c' }), [
    at('ca_file', 'needs an address that begins with https'),
  ]);
  for (const health of ['model', 'health/', '', '/a b', '/a#b', 'http://x'])
    t.is(issuesOf({ health }).length, 1, health);
  for (const health of ['models', 'health', 'ready', '/', '/v1/up?x=1']) t.deepEqual(issuesOf({ health }), []);
});
