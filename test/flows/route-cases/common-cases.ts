import { gzipSync } from 'node:zlib';
import { z } from 'zod';
import { toJsonSchema } from '../../../ingress/api/json-schema.ts';
import type { Access, Route } from '../../../ingress/api/route.ts';
import { makeKey, maskKey } from '../../../ingress/authentication/api-key.ts';
import { boundary, contentType, file, multipart, type Part } from '../../support/multipart.ts';
import {
  bodyBytesMax,
  type Case,
  forbidden,
  invalid,
  invalidKey,
  invalidToken,
  json,
  keyExpired,
  limited,
  noAuth,
  notFound,
  ok,
  type Request,
  requestTo,
  tooLarge,
  unsupported,
} from './case.ts';

/**
 * Credentials in each state that routes distinguish. `expired` is a token, `eagerToken` that of an account with too many writes, and
 * `filelessKey` may use no files.
 */
export type Credentials = Record<
  | ('key' | 'rotatedKey' | 'revokedKey' | 'expiredKey' | 'suspendedKey' | 'filelessKey')
  | ('guestKey' | 'suspendedGuestKey')
  | ('token' | 'expired' | 'suspendedToken' | 'eagerToken' | 'operator'),
  string
>;

/** Bodies of key, billing and account routes (contract.md#l1-bodies-in-memory). */
const settingsBytesMax = 16_384;
/** Of a network that has sent too many calls for guest keys. */
export const busyAddress = '10.8.8.8';
const openAiBase = '/openai';

/** Who may call a route: the credential of its other cases, all that it accepts, and what it takes. */
const callers: Readonly<
  Record<Access, { accepted: readonly (keyof Credentials)[]; keys?: true; tokens?: true; takes?: string }>
> = {
  none: { accepted: [] },
  key: { accepted: ['key', 'guestKey'], keys: true, takes: 'API key' },
  signIn: { accepted: ['token'], tokens: true, takes: 'sign-in token' },
  either: { accepted: ['key', 'guestKey', 'token'], keys: true, tokens: true, takes: 'API key or sign-in token' },
  account: { accepted: ['key', 'token'], keys: true, tokens: true, takes: 'API key or sign-in token' },
  operator: { accepted: ['operator'], tokens: true, takes: 'sign-in token' },
};

/** A request to one route: everything that is not given is right. */
type Call = (request: Request & { query?: string; params?: Readonly<Record<string, string>> }) => Buffer;

/**
 * The cases that follow from what a route declares: its access, its head, its parameters, its query, its body and its limit of changes.
 * Below `/openai/v1` one of each error is sent again.
 */
export function commonCases(route: Route, cast: Credentials): Case[] {
  const all = casesBelow('', route, cast);
  if (!route.path.startsWith('/v1/')) return all;
  // An unknown model has a code of its own there (contract.md#b10-errors-by-base-url).
  const kept = ['200', ...('model' in (route.params ?? {}) ? ['404 NOT_FOUND'] : [])];
  const refused = casesBelow(openAiBase, route, cast).filter(({ answer }) => !kept.includes(answer));
  const nested = [...Map.groupBy(refused, ({ answer }) => answer).values()].flatMap(([first]) => first ?? []);
  return [...all, ...nested.map((one) => ({ ...one, base: openAiBase, title: `${one.title}, below /openai/v1` }))];
}

function casesBelow(base: string, route: Route, cast: Credentials): Case[] {
  const { access } = route;
  const [accepted] = callers[access].accepted;
  const body = goodBodyOf(route);
  const type = route.body?.form ? contentType() : json;
  const bearer = accepted && cast[accepted];
  const call: Call = ({ query = '', params = {}, ...request }) =>
    requestTo(`${route.method} ${base}${targetOf(route, params)}${query}`, { bearer, body, type, ...request });
  return [
    ...(access === 'none' ? [] : credentialCases(access, call, cast)),
    ...acceptedCases(route, call, cast),
    ...headCases(route, call),
    ...limitCases(route, call, cast),
    ...parameterCases(route, call),
    ...queryCases(route, call),
    ...(route.body === undefined ? [] : typeCases(call)),
    ...(route.body?.form ? formCases(route, call) : jsonCases(route, call, cast.key)),
  ];
}

/** Limits that are counted before a body is read. */
function limitCases({ limits = [] }: Route, call: Call, cast: Credentials): Case[] {
  const [writes, calls] = [call({ bearer: cast.eagerToken }), call({ lines: [`X-Forwarded-For: ${busyAddress}`] })];
  return [
    ...(limits.includes('settings_limit') ? [limited('after many writes', writes, '"type":"settings_limit"')] : []),
    ...(limits.includes('guest_calls') ? [limited('after many calls', calls, '"type":"guest_calls"')] : []),
  ];
}

/** A path of the route, with its examples. */
export function targetOf({ path, params = {} }: Route, changed: Readonly<Record<string, string>> = {}): string {
  return path.replace(/\w*[:*](\w+)/g, (_, name: string) => changed[name] ?? params[name]?.example ?? '');
}

/** The example of a body, for a model that the tests have. Nothing is refused of it, except that it names things that there are not. */
export function goodBodyOf({ body }: Route): object | undefined {
  if (body?.form) return multipart(goodPartsOf(body.schema));
  const example = body?.example as object | undefined; // examples of JSON bodies are objects
  return example && 'model' in example ? { ...example, model: 'small-chat' } : example;
}

function fieldsOf(schema: z.ZodType | undefined): [name: string, field: z.ZodType][] {
  return schema instanceof z.ZodObject ? Object.entries(schema.shape as Record<string, z.ZodType>) : [];
}

const isRequired = (field: z.ZodType) => !field.safeParse(undefined).success;

function goodPartsOf(schema: z.ZodType): Part[] {
  const required = fieldsOf(schema).filter(([, field]) => isRequired(field));
  return required.map(([name, field]) =>
    field instanceof z.ZodLiteral ? { name, body: String(field.value) } : file('{}'),
  );
}

/** Invalid heads, the same for every route and caller. */
function headCases({ repeatable }: Route, call: Call): Case[] {
  const wrong = (name: string, says: string, ...values: string[]) =>
    invalid(`${name}: ${values.join().slice(0, 9)}`, call({ lines: values.map((value) => `${name}: ${value}`) }), says);
  const clientIds = ['x'.repeat(513), 'a b'].map((id) => wrong('X-Client-Request-Id', 'x-client-request-id: ', id));
  const keys = repeatable ? [['a', 'b'], [''], ['x'.repeat(256)], ['a b']] : [];
  const says = 'idempotency-key: must be 1 to 255 visible ASCII characters';
  return [...clientIds, ...keys.map((values) => wrong('Idempotency-Key', says, ...values))];
}

function credentialCases(access: Access, call: Call, cast: Credentials): Case[] {
  const { keys, tokens, takes } = callers[access];
  const by = (name: keyof Credentials) => call({ bearer: cast[name] });
  const typo = `${cast.key.slice(0, -1)}${cast.key.endsWith('0') ? 1 : 0}`;
  const [unknown, suspended] = ['unknown, revoked or rotated', 'This account is suspended.'];
  const ofKeys = [
    invalidKey('an unknown key', call({ bearer: makeKey() }), unknown),
    invalidKey('a key with a typo', call({ bearer: typo }), 'malformed'),
    invalidKey('the prefix of keys alone', call({ bearer: 'svc_' }), 'malformed'),
    invalidKey('a rotated key', by('rotatedKey'), unknown),
    invalidKey('a revoked key', by('revokedKey'), unknown),
    keyExpired('an expired key', by('expiredKey')),
    forbidden('a key of a suspended account', by('suspendedKey'), suspended),
    forbidden('a key of a suspended device', by('suspendedGuestKey'), suspended),
  ];
  const noKeys = [cast.key, makeKey(), 'svc_0'].map((key) =>
    invalidToken(`a key of ${key.length} characters`, call({ bearer: key }), 'takes a sign-in token'),
  );
  const special: Partial<Record<Access, Case[]>> = {
    account: [
      forbidden('a guest key', by('guestKey'), 'Guest keys have no files'),
      forbidden('a key without files', by('filelessKey'), 'This API key may use no files and no batches.'),
    ],
    operator: [forbidden('no operator', by('token'), 'an operator')],
  };
  return [
    ...headerCases(call, cast, `<${takes}>`),
    ...(keys ? ofKeys : noKeys),
    tokens
      ? forbidden('a token of a suspended account', by('suspendedToken'), suspended)
      : invalidKey('a sign-in token', by('token'), 'takes an API key'),
    ...(special[access] ?? []),
  ];
}

/** Invalid `Authorization` headers. */
function headerCases(call: Call, cast: Credentials, help: string): Case[] {
  const as = (...values: string[]) =>
    call({ bearer: undefined, lines: values.map((value) => `Authorization:${value}`) });
  return [
    noAuth('no header', as(), help),
    noAuth('an empty header', as('')),
    noAuth('a blank header', as('    ')),
    invalidToken('garbage', as(' Bearer abc')),
    invalidToken('another scheme', as(' Basic YTpi'), 'does not begin with'),
    invalidToken('no scheme', as(` ${cast.key}`), help),
    invalidToken('nothing after the scheme', as(' Bearer')),
    invalidToken('two tokens', as(` Bearer ${cast.token} ${cast.token}`)),
    invalidToken('two headers', as(` Bearer ${cast.token}`, ` Bearer ${cast.token}`)),
    invalidToken('two headers, one of them empty', as('', ` Bearer ${cast.key}`)),
    invalidToken('a masked key', as(` Bearer ${maskKey(cast.key)}`)),
    invalidToken('an expired token', as(` Bearer ${cast.expired}`)),
  ];
}

/** The answers to each caller of a route that needs nothing else, and pages of a list. */
function acceptedCases({ method, access, params, query }: Route, call: Call, cast: Credentials): Case[] {
  const fields = fieldsOf(query);
  if (method !== 'GET' || params !== undefined || fields.some(([, field]) => isRequired(field))) return [];
  const { accepted } = callers[access];
  if (access === 'none') return [ok('no credential', call({})), ok('any credential', call({ bearer: 'abc' }))];
  const list = fields.find(([name, field]) => name === 'limit' && field.safeParse(undefined).data !== undefined);
  const largest = list && maximumOf(list[1]);
  return [
    ...accepted.map((name) => ok(`the credential ${name}`, call({ bearer: cast[name] }))),
    ...(list ? [1, largest].map((limit) => ok(`a limit of ${limit}`, call({ query: `?limit=${limit}` }))) : []),
  ];
}

const malformed = [
  ...['x', '%24ne', '__proto__', 'constructor', '%zz', '%', '%c3', '%00', '%ED%A0%80', 'a%2Fb', '..%2F..'],
  'x'.repeat(10_000),
];
/** An id of an example names nothing in the tests. */
const id = /[0-9A-HJKMNP-TV-Z]{26}|[0-9a-f]{32}/;

/** Values of parameters of the path that name nothing. */
function parameterCases({ path, params = {}, refusals = [] }: Route, call: Call): Case[] {
  if (!refusals.includes('NOT_FOUND')) return [];
  return Object.entries(params).flatMap(([name, { example, pattern, missing }]) => {
    const [, prefix = ''] = new RegExp(`/(\\w+_):${name}`).exec(path) ?? [];
    const unknown = id.test(example) ? [example, example.toLowerCase()] : [];
    const values = [...malformed.map((value) => prefix + value), ...unknown];
    return values.map((value) => {
      const error = pattern?.test(value) ? undefined : missing?.().message;
      return notFound(`the ${name} ${value.slice(0, 40)}`, call({ params: { [name]: value } }), error);
    });
  });
}

/** Some of these are invalid in every field of a text, a number, a name, a day or an id. */
const wrongTexts = ['', 'x', '0', 'a\nb', '__proto__', 'x_01KBN4V4W0R2E9Z6Y5QH3T8MXA', 'x'.repeat(501)];

/** Unknown, repeated and invalid parameters. A query that does not list its parameters takes all. */
function queryCases({ query }: Route, call: Call): Case[] {
  const fields = fieldsOf(query);
  if (fields.length === 0) return [];
  const as = (...pairs: [name: string, value: string][]) => call({ query: `?${new URLSearchParams(pairs)}` });
  return [
    ...['unknown', '__proto__'].map((name) => invalid(`parameter ${name}`, as([name, '1']), `${name}: is not known`)),
    ...fields.flatMap(([name, field]) => {
      const maximum = maximumOf(field);
      const range = `${name}: expected a whole number from 1 to ${maximum}`;
      return [
        invalid(`${name}, repeated`, as([name, '1'], [name, '1']), `${name}: `),
        ...(maximum === undefined ? [] : [invalid(`${name} over its maximum`, as([name, `${maximum + 1}`]), range)]),
        ...rejected(field, wrongTexts).map((value) =>
          invalid(`${name}: ${JSON.stringify(value).slice(0, 20)}`, as([name, value]), `${name}: `),
        ),
      ];
    }),
  ];
}

/** As it is documented: a number in a query is a text. */
const maximumOf = (field: z.ZodType) => toJsonSchema(field, 'input').maximum as number | undefined;

function rejected<Value>(field: z.ZodType, values: readonly Value[]): Value[] {
  return values.filter((value) => !field.safeParse(value).success);
}

/** Bodies of a wrong type. */
function typeCases(call: Call): Case[] {
  return [
    unsupported('no type', call({ type: '' })),
    unsupported('two types', call({ lines: [json] })),
    unsupported('text', call({ type: 'Content-Type: text/plain' })),
    unsupported('a form of a browser', call({ type: 'Content-Type: application/x-www-form-urlencoded', body: 'a=b' })),
    unsupported('another multipart type', call({ type: `Content-Type: multipart/mixed; boundary=${boundary}` })),
    unsupported('a compressed body', call({ lines: ['Content-Encoding: gzip'], body: gzipSync('{}') })),
  ];
}

/** Forms that lack a field, or have one that is not known. */
function formCases({ body }: Route, call: Call): Case[] {
  const parts = body === undefined ? [] : goodPartsOf(body.schema);
  const wrong = (title: string, sent: Part[], says: string) => invalid(title, call({ body: multipart(sent) }), says);
  const without = (name = '') => parts.filter((part) => part.name !== name);
  return [
    unsupported('JSON', call({ type: json })),
    wrong('an unknown field', [{ name: 'unknown', body: '' }, ...parts], 'unknown: is not known'),
    ...parts.map(({ name }) => wrong(`no ${name}`, without(name), `${name}: is required`)),
  ];
}

/** Some of these are invalid in every field. */
const wrongValues = [
  ...[true, 5, 'x', [], {}, ['x', 'x'], { $ne: '' }, -1, 1.5, 1e12 + 1],
  ...['', 'a\nb', '\ud800', 'x'.repeat(501)],
];

/** Bodies that are not the JSON of the route. */
function jsonCases(route: Route, call: Call, key: string): Case[] {
  const { body, endpoint, access } = route;
  if (body === undefined) return [];
  const good = { ...goodBodyOf(route) };
  const written = JSON.stringify(good);
  const isSettings = access === 'signIn' || access === 'operator';
  const bytesMax = body.bytesMax ?? (isSettings ? settingsBytesMax : bodyBytesMax);
  const announced = { body: undefined, lines: [json, `Content-Length: ${bytesMax + 1}`] };
  const chunks = `${(bytesMax + 1).toString(16)}\r\n${' '.repeat(bytesMax + 1)}\r\n0\r\n\r\n`;
  const chunked = [call({ body: undefined, lines: [json, 'Transfer-Encoding: chunked'] }), Buffer.from(chunks)];
  const text = (title: string, sent: string | Buffer, expected = 'valid JSON') =>
    invalid(title, call({ body: sent }), `body: expected ${expected}`);
  const withField = (name: string, expected = `${name}: is not ${endpoint ? 'accepted' : 'known'}`) =>
    invalid(
      `the field ${name}`,
      call({ body: written.replace(/,?}$/, `,"${name}":{}}`).replace('{,', '{') }),
      expected,
    );
  return [
    text('not JSON', '{"a":'),
    text('the largest body, which is not JSON', '{"a":'.padEnd(bytesMax)),
    text('nothing', ''),
    text('trailing text', `${written}x`),
    ...['[]', '"x"', 'null'].map((value) => text(`the JSON ${value}`, value, 'a JSON object')),
    text('not UTF-8', Buffer.from('{"a":"\xff"}', 'latin1'), 'UTF-8'),
    tooLarge('by its length', call(announced)),
    tooLarge('by count', Buffer.concat(chunked)),
    unsupported('another charset', call({ type: `${json}; charset=latin1` })),
    withField('unknown'),
    withField('__proto__'),
    // No error repeats a key.
    withField(key, `${maskKey(key)}: is not `),
    ...fieldsOf(body.schema).flatMap(([name, field]) => {
      const missing = isRequired(field) ? [undefined, null] : [];
      const wrong = rejected<unknown>(field, [...missing, ...wrongValues]);
      // Endpoints have tests of each field.
      return (endpoint ? wrong.slice(0, 2) : wrong).map((value) =>
        invalid(
          `${name}: ${String(JSON.stringify(value)).slice(0, 20)}`,
          call({ body: { ...good, [name]: value } }),
          name,
        ),
      );
    }),
  ];
}
