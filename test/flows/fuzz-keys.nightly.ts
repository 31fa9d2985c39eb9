import test, { type ExecutionContext } from 'ava';
import fc from 'fast-check';
import { deriveKey } from '../../ingress/authentication/api-key.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { answerName, documentedAnswers, type Route, routes, shapeFaults } from '../support/documented-answers.ts';
import { createKeyClient, fullKey, type KeyClient } from '../support/key-client.ts';
import { exchange, type RawAnswer } from '../support/raw-http.ts';
import { head, stillServes } from '../support/refusal.ts';
import { sized } from '../support/size.ts';

let stack: Stack;
let keys: KeyClient;
let port: number;
let key: string;
let token: string;
let operator: string;
const parts = new AsyncDisposableStack();

test.before(async () => {
  // Each device has its own address, or many share one. Addresses beyond a limit have their own tests.
  stack = parts.use(
    await startStack({
      env: { TRUST_PROXY: '1', AUTH_FAILURES_PER_MINUTE: '1000000' },
      guests: { guest_calls_per_minute: 1_000_000 },
    }),
  );
  keys = createKeyClient(stack);
  port = Number(new URL(stack.ingresses[0]?.url ?? '').port);
  key = await keys.newKey('alice');
  token = await keys.token('alice');
  operator = await keys.token('operator', true);
});

test.after.always(() => parts.disposeAsync());

/** Limits the time of each search; what it found by then counts. A failure prints its seed, which reproduces it. */
const search = (runs: number) => ({ numRuns: runs, interruptAfterTimeLimit: sized(800) });

type Sent = { lines?: readonly (string | Buffer)[]; body?: string | Buffer; path?: string };

/** The bytes of one request to a route. */
function requestTo(route: Route, { lines = [], body, path }: Sent): Buffer {
  const [method, pattern = ''] = route.split(' ');
  const target = path ?? pattern.replace('*model', 'small-chat').replace(':account', 'user:alice');
  const ofBody =
    body === undefined ? [] : ['Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`];
  return Buffer.concat([
    Buffer.from(head(`${method} ${target} HTTP/1.1`).slice(0, -2)),
    ...[...lines, ...ofBody].flatMap((line) => [Buffer.from(line), Buffer.from('\r\n')]),
    Buffer.from('\r\n'),
    Buffer.from(body ?? ''),
  ]);
}

const as = (bearer: string) => `Authorization: Bearer ${bearer}`;

/**
 * Throws if this answer is not documented for the route. Throws a plain error: the test would report an assertion instead of the failure of
 * the search, without seed and counterexample.
 */
async function ask(route: Route, sent: Sent): Promise<RawAnswer> {
  const answer = await exchange({ port, send: requestTo(route, sent) });
  const name = answerName(answer);
  const documented = documentedAnswers(route);
  const faults = [...(documented.includes(name) ? [] : ['is documented']), ...shapeFaults(route, answer)];
  if (faults.length > 0) throw new Error(`${route}: ${name} not: ${faults.join(', ')}: ${answer.body.slice(0, 500)}`);
  return answer;
}

async function proves(t: ExecutionContext): Promise<void> {
  await stillServes(t, stack.ingresses[0], key);
}

const authenticated = routes.filter((route) => documentedAnswers(route).includes('401 NO_AUTH'));
const visibleAscii = fc.string({ unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)) });
const base62 = fc.constantFrom(...'0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz');

/** Any bytes except line ends, which would make it more than one header. */
const anyBytes = fc
  .uint8Array({ maxLength: 300 })
  .map((bytes) => Buffer.from(bytes.filter((byte) => byte !== 10 && byte !== 13)));
/** Uses only algorithms that the service rejects: for others the issuer would be asked for each key, which has its own tests. */
const jwtPart = fc.oneof(
  fc.base64String({ maxLength: 80 }).map((text) => text.replaceAll('=', '')),
  fc.json({ maxDepth: 2 }).map((text) => Buffer.from(text).toString('base64url')),
  fc
    .record(
      {
        alg: fc.constantFrom('none', 'HS256', 'ECDH-ES', '__proto__', 'dir', ''),
        kid: fc.string(),
        typ: fc.constantFrom('at+jwt', 'JWT', ''),
        crit: fc.array(fc.string(), { maxLength: 2 }),
        b64: fc.boolean(),
      },
      { requiredKeys: ['alg'] },
    )
    .map((header) => Buffer.from(JSON.stringify(header)).toString('base64url')),
);
const tokenLike = fc.array(jwtPart, { minLength: 1, maxLength: 5 }).map((texts) => texts.join('.'));
const authorization = fc.oneof(
  anyBytes,
  anyBytes.map((bytes) => Buffer.concat([Buffer.from('Bearer '), bytes])),
  anyBytes.map((bytes) => Buffer.concat([Buffer.from('Bearer svc_'), bytes])),
  fc
    .tuple(fc.constantFrom('Bearer', 'bearer', 'BEARER', 'Basic', 'DPoP', ''), visibleAscii)
    .map((words) => words.join(' ')),
  tokenLike.map((text) => `Bearer ${text}`),
);

test.serial(
  'any Authorization header without a valid credential gets 401, or 400 if it is not a valid header',
  async (t) => {
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...authenticated), authorization, async (route, value) => {
        const { status } = await ask(route, {
          lines: [Buffer.concat([Buffer.from('Authorization: '), Buffer.from(value)])],
        });
        if (status !== 400 && status !== 401) throw new Error(`${route} answered ${status}`);
      }),
      search(1_500),
    );
    await proves(t);
  },
);

test.serial('a token of the issuer with one character changed gets 401', async (t) => {
  // Not in its header, which would name a key that the issuer is asked for, and not its last character, which holds unused bits.
  const place = fc.integer({ min: token.indexOf('.') + 1, max: token.length - 2 });
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...authenticated), place, base62, async (route, index, character) => {
      const changed = token.slice(0, index) + character + token.slice(index + 1);
      fc.pre(changed !== token);
      const { status } = await ask(route, { lines: [as(changed)] });
      if (status !== 401) throw new Error(`${route} answered ${status}`);
    }),
    search(300),
  );
  await proves(t);
});

test.serial('an unknown key gets 401, with or without a valid checksum, as a credential and in a body', async (t) => {
  const random = fc.string({ unit: base62, minLength: 38, maxLength: 38 }).map((text) => `svc_${text}`);
  const wellFormed = fc.string().map((text) => deriveKey(text, 'an unrelated pepper'));
  const nearly = fc
    .tuple(fc.nat({ max: 41 }), base62)
    .map(([index, character]) => key.slice(0, index) + character + key.slice(index + 1));
  const other = fc.string({ unit: base62, maxLength: 300 }).map((text) => `svc_${text}`);
  const changing = fc.constantFrom('POST /v1/keys/developer/rotate', 'POST /v1/keys/developer/revoke');
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...authenticated),
      changing,
      fc.oneof(random, wellFormed, nearly, other),
      async (route, change, candidate) => {
        fc.pre(candidate !== key);
        const used = await ask(route, { lines: [as(candidate)] });
        const named = await ask(change, { lines: [as(token)], body: JSON.stringify({ key: candidate }) });
        if (used.status !== 401 || answerName(named) !== '401 INVALID_KEY') {
          throw new Error(`${route} answered ${used.status}, ${change} ${named.status}`);
        }
      },
    ),
    search(400),
  );
  await proves(t);
});

const prototypeNames = fc.constantFrom(
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  '$ne',
  '$where',
  'key.hash',
  '',
);
const fieldNames = fc.oneof(
  fc.constantFrom('key', 'device_id', 'plan', 'suspended', 'overageEnabled', 'topUp'),
  prototypeNames,
  fc.string(),
);
const anyJson = fc.jsonValue({ maxDepth: 4 });
const anyObject = fc
  .array(fc.tuple(fieldNames, anyJson), { maxLength: 12 })
  .map((fields) => `{${fields.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(',')}}`);
const deep = fc.tuple(fieldNames, fc.integer({ min: 1, max: 50_000 }), fc.boolean()).map(([name, depth, arrays]) => {
  const [open, close] = arrays ? ['[', ']'] : ['{"a":', '}'];
  return `{${JSON.stringify(name)}:${open.repeat(depth)}1${close.repeat(depth)}}`;
});
/** Of about the maximum size, mostly in the name of a field or in its value. */
const huge = fc.record({
  bytes: fc.constantFrom(1_000_000, 4_194_304, 4_194_305),
  field: fieldNames,
  inName: fc.boolean(),
});
function hugeBody({ bytes, field, inName }: { bytes: number; field: string; inName: boolean }): string {
  const bodyOf = (filler: string) => JSON.stringify(inName ? { [field + filler]: 1 } : { [field]: filler });
  return bodyOf('x'.repeat(bytes - Buffer.byteLength(bodyOf(''))));
}
const anyRequestBody = fc.oneof(
  { weight: 20, arbitrary: anyObject },
  { weight: 10, arbitrary: fc.json() },
  { weight: 5, arbitrary: fc.string({ unit: 'binary' }) },
  { weight: 5, arbitrary: fc.uint8Array().map((bytes) => Buffer.from(bytes)) },
  { weight: 1, arbitrary: deep },
);

const taking = fc.constantFrom<Route>(
  'POST /v1/keys/developer',
  'POST /v1/keys/developer/rotate',
  'POST /v1/keys/developer/revoke',
  'POST /v1/keys/guest',
  'PATCH /admin/accounts/:account',
);

/** Conditions on a body for its route to have any effect, checked with JSON.parse alone. */
function canBeTaken(route: Route, body: string | Buffer): boolean {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(body)));
  } catch {
    return false;
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const fields = Object.entries(value);
  const names = fields.map(([name]) => name).join();
  if (route === 'POST /v1/keys/developer') return fields.length === 0;
  if (route === 'POST /v1/keys/guest') return names === 'device_id' && typeof fields[0]?.[1] === 'string';
  if (route !== 'PATCH /admin/accounts/:account') return false;
  return fields.length > 0 && fields.every(([name, is]) => isSetting(name, is));
}

function isSetting(name: string, is: unknown): boolean {
  if (name === 'suspended' || name === 'overageEnabled') return typeof is === 'boolean';
  if (name !== 'topUp') return name === 'plan' && is === 'free';
  if (typeof is !== 'object' || is === null || Object.keys(is).sort().join() !== 'id,tokens') return false;
  const { id, tokens } = is as { id: unknown; tokens: unknown }; // it has these two fields, of unknown types
  return typeof id === 'string' && /^[!-~]{1,128}$/.test(id) && Number.isInteger(tokens) && Number(tokens) > 0;
}

async function provesBody(route: Route, body: string | Buffer): Promise<void> {
  const bearer = route.startsWith('PATCH') ? operator : token;
  const path = route.startsWith('PATCH') ? '/admin/accounts/user:bystander' : undefined;
  const answer = await ask(route, { lines: [as(bearer)], body, ...(path && { path }) });
  if (answer.status === 200 && !canBeTaken(route, body)) throw new Error(`${route} accepted it: ${answer.body}`);
}

test.serial('any body is refused as documented unless it is exactly what its route accepts', async (t) => {
  await keys.newKey('bystander');
  await fc.assert(
    fc.asyncProperty(taking, anyRequestBody, (route, body) => provesBody(route, body)),
    search(1_500),
  );
  await fc.assert(
    fc.asyncProperty(taking, huge, (route, wishes) => provesBody(route, hugeBody(wishes))),
    search(12),
  );
  t.is((await keys.account('user:bystander')).body.plan, 'free');
  t.is((await keys.list('alice'))[0]?.key.slice(0, 10), key.slice(0, 10));
  await proves(t);
});

const visibleCharacters = fc.constantFrom(...'!"#%/<>?[]\\^`{|}~$.-_:0aZ', 'é', 'ß', 'Ж', '東', '한', '🙂', '𝔸', 'ﷺ');
const addresses = fc.ipV4();
const mintGuest = (address: string, body: string) =>
  ask('POST /v1/keys/guest', { lines: [`X-Forwarded-For: ${address}`], body });

test.serial('a device id of 8 to 256 visible characters gets a key, and the same key at each call', async (t) => {
  const ids = fc.array(visibleCharacters, { minLength: 8, maxLength: 256 }).map((characters) => characters.join(''));
  const seen = new Map<unknown, string>();
  await fc.assert(
    fc.asyncProperty(ids, addresses, fc.boolean(), async (id, address, escaped) => {
      const body = JSON.stringify({ device_id: id });
      const first = await mintGuest(address, body);
      const again = await mintGuest(address, escaped ? escapeAll(body) : body);
      const { key } = JSON.parse(first.body);
      if (first.status !== 200 || !fullKey.test(key)) throw new Error(first.body);
      if (again.body !== first.body) throw new Error(`${first.body}, then ${again.body}`);
      if ((seen.get(key) ?? id) !== id) throw new Error(`the key of ${seen.get(key)} is also that of ${id}`);
      seen.set(key, id);
    }),
    search(250),
  );
  await proves(t);
});

/** The same text as JSON in ASCII only. */
function escapeAll(body: string): string {
  return body.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

test.serial(
  'a device id that has invisible characters, is too short or is too long gets 400 and creates no device',
  async (t) => {
    const invisible = fc.oneof(
      fc.constantFrom(
        '\0',
        '\x1f',
        '\x7f',
        '\x85',
        ' ',
        '\t',
        '\n',
        '\r\n',
        '\u00a0',
        '\u200b',
        '\u2028',
        '\u202e',
        '\ufeff',
        '\ue000',
      ),
      fc.integer({ min: 0xd800, max: 0xdfff }).map((unit) => String.fromCharCode(unit)),
    );
    const some = fc.array(visibleCharacters, { minLength: 4, maxLength: 100 }).map((characters) => characters.join(''));
    const asciiOf = (minLength: number, maxLength: number) =>
      fc.string({ unit: fc.constantFrom(...'aZ09-_'), minLength, maxLength });
    const ids = fc.oneof(
      // A visible character on both sides: two adjacent halves would form a complete character.
      fc.tuple(some, invisible, some).map((texts) => texts.join('')),
      fc.tuple(some, invisible).map((texts) => `${texts[0]}abcd${texts[1]}`),
      fc.tuple(invisible, some).map(([first, rest]) => `${first}abcd${rest}`),
      asciiOf(0, 7),
      asciiOf(257, 400),
      fc.array(fc.constantFrom('🙂', '𝔸'), { maxLength: 7 }).map((characters) => characters.join('')),
    );
    const address = '198.51.100.7';
    await fc.assert(
      fc.asyncProperty(ids, async (id) => {
        const answer = await mintGuest(address, JSON.stringify({ device_id: id }));
        if (answerName(answer) !== '400 VALIDATION_ERROR') throw new Error(answer.body);
        if (!answer.body.includes('device_id: expected 8 to 256 visible characters')) throw new Error(answer.body);
      }),
      search(300),
    );
    t.is((await mintGuest(address, '{"device_id":"from-there"}')).status, 200, 'none of them was counted');
    await proves(t);
  },
);

test.serial(
  'any account id that an operator names is found or gets 404, and never finds another account',
  async (t) => {
    const percent = fc
      .uint8Array({ maxLength: 60 })
      .map((bytes) => [...bytes].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''));
    const names = fc.oneof(
      fc
        .string({ unit: 'binary' })
        .filter((text) => text.isWellFormed())
        .map(encodeURIComponent),
      visibleAscii,
      percent,
      percent.map((text) => `user:${text}`),
      fc
        .tuple(fc.constantFrom('user:', 'device:', 'user%3A', '../', './', '%2e%2e%2f', '//'), visibleAscii)
        .map((texts) => texts.join('')),
      prototypeNames.map(encodeURIComponent),
    );
    const read: Route = 'GET /admin/accounts/:account';
    const change: Route = 'PATCH /admin/accounts/:account';
    await fc.assert(
      fc.asyncProperty(names, fc.boolean(), async (name, changes) => {
        // Those are other targets, not paths of this route.
        const path = `/admin/accounts/${name.replace(/[?#\\]/g, '')}`;
        const send = requestTo(changes ? change : read, {
          path,
          lines: [as(operator)],
          ...(changes && { body: '{"suspended":false}' }),
        });
        const answer = await exchange({ port, send });
        const got = answerName(answer);
        if (!['200', '400 VALIDATION_ERROR', '404 NOT_FOUND', '405 METHOD_NOT_ALLOWED'].includes(got)) {
          throw new Error(`${got}: ${answer.body}`);
        }
        if (got === '200') throw new Error(`found ${answer.body}`);
      }),
      search(500),
    );
    await proves(t);
  },
);
