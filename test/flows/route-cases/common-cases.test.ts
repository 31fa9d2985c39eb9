import test from 'ava';
import { z } from 'zod';
import { named, route } from '../../../ingress/api/route.ts';
import { ApiError } from '../../../shared/errors.ts';
import { documentedRoutes } from '../../support/api-routes.ts';
import { documentedAnswers, routes } from '../../support/documented-answers.ts';
import { type Credentials, commonCases } from './common-cases.ts';

const names = [
  ...['key', 'rotatedKey', 'revokedKey', 'expiredKey', 'suspendedKey', 'filelessKey', 'guestKey', 'suspendedGuestKey'],
  ...['token', 'expired', 'suspendedToken', 'eagerToken', 'operator'],
];
const cast = Object.fromEntries(names.map((name) => [name, `svc_of-${name}`])) as Credentials;

const id = 'thing_01KBN4V4W0R2E9Z6Y5QH3T8MXA';
const params = {
  thing: {
    description: 'A thing.',
    example: id,
    pattern: /^thing_[0-9A-Z]{26}$/,
    missing: () => new ApiError('NOT_FOUND', 'There is no such thing.'),
  },
};
/** A route that no one has written cases for. */
const made = route({
  id: 'changeThing',
  method: 'POST',
  path: '/v1/things/thing_:thing',
  access: 'account',
  tag: 'Files',
  summary: 'Change a thing.',
  params,
  query: z.strictObject({ size: z.enum(['small', 'large']).optional() }),
  body: { schema: named('MadeBody', z.strictObject({ name: z.string() })), example: { name: 'a' } },
  answers: { description: 'A thing.', schema: 'object' },
  refusals: ['NOT_FOUND'],
  limits: ['settings_limit'],
  handle() {},
});

test('the common cases of a new route follow from what it declares', (t) => {
  const cases = commonCases(made, cast);
  const by = (wanted: string) => cases.filter(({ answer, base }) => answer === wanted && base === undefined);
  const titles = (wanted: string) => by(wanted).map(({ title }) => title);
  t.deepEqual(titles('401 NO_AUTH'), ['no header', 'an empty header', 'a blank header']);
  t.deepEqual(titles('401 INVALID_TOKEN'), [
    ...['garbage', 'another scheme', 'no scheme', 'nothing after the scheme', 'two tokens', 'two headers'],
    ...['two headers, one of them empty', 'a masked key', 'an expired token'],
  ]);
  t.deepEqual(titles('401 INVALID_KEY'), [
    ...['an unknown key', 'a key with a typo', 'the prefix of keys alone', 'a rotated key', 'a revoked key'],
  ]);
  t.deepEqual(titles('401 KEY_EXPIRED'), ['an expired key']);
  t.deepEqual(titles('403 FORBIDDEN'), [
    ...['a key of a suspended account', 'a key of a suspended device', 'a token of a suspended account'],
    ...['a guest key', 'a key without files'],
  ]);
  t.deepEqual(titles('429 rate_limit_exceeded'), ['after many writes']);
  t.deepEqual(titles('413 PAYLOAD_TOO_LARGE'), ['by its length', 'by count']);
  t.deepEqual(titles('415 UNSUPPORTED_MEDIA_TYPE'), [
    ...['no type', 'two types', 'text', 'a form of a browser', 'another multipart type', 'a compressed body'],
    'another charset',
  ]);
  const invalid = titles('400 VALIDATION_ERROR');
  for (const title of [
    ...['X-Client-Request-Id: a b', 'parameter unknown', 'size, repeated', 'size: "x"', 'not JSON', 'the JSON []'],
    ...['the field unknown', 'the field __proto__', 'name: undefined', 'name: null', 'name: 5', 'name: []'],
  ]) {
    t.true(invalid.includes(title), title);
  }
  t.false(invalid.includes('name: "x"'), 'a text is a valid name');
  t.true(titles('404 NOT_FOUND').includes(`the thing ${id}`));
  t.true(
    by('404 NOT_FOUND').every(({ title, expected }) => title.endsWith(id) || expected === 'There is no such thing.'),
  );
  const nested = cases.filter(({ base }) => base !== undefined);
  t.deepEqual(
    new Set(nested.map(({ answer }) => answer)),
    new Set(cases.map(({ answer }) => answer)),
    'one of each error is sent below the other base path',
  );
  for (const { send } of nested) t.regex(send.toString('latin1'), /^POST \/openai\/v1\/things\/thing_/);
});

test('the cases of every route show each error that follows from its access, its head, its body and its query', (t) => {
  for (const [name, described] of Object.entries(documentedRoutes)) {
    const common = new Set(commonCases(described, cast).map(({ answer }) => answer));
    const { refusals = [], limits = [] } = described;
    const special = ['200', ...refusals, ...(limits.length > 0 ? ['rate_limit_exceeded'] : [])];
    const derived = documentedAnswers(name).filter((answer) => !special.includes(answer.split(' ').at(-1) ?? ''));
    // Its size is not limited by its route.
    const missing = derived.filter(
      (answer) => !common.has(answer) && !(described.body?.form && answer.startsWith('413')),
    );
    t.deepEqual(missing, [], name);
  }
});

test('every parameter of a query and every field of a body has a case of an invalid value', (t) => {
  for (const [name, described] of Object.entries(documentedRoutes)) {
    const titles = commonCases(described, cast).map(({ title }) => title);
    for (const { shape } of [described.query, described.body?.schema].filter((each) => each instanceof z.ZodObject)) {
      const fields = Object.keys(shape).filter((field) => !described.body?.form && field !== 'moderation'); // of any kind
      t.deepEqual(
        fields.filter((field) => !titles.some((title) => title.startsWith(`${field}: `))),
        [],
        name,
      );
    }
  }
});

/** The longest pages of lists; 100 of all others. */
const longestPages: Readonly<Record<string, number>> = {
  'GET /v1/files': 10_000,
  'GET /v1/models': 1_000,
  'GET /admin/usage': 1_000,
};

test('no list gives longer pages than it should', (t) => {
  for (const [name, { query }] of Object.entries(documentedRoutes)) {
    const shape = query instanceof z.ZodObject ? query.shape : {};
    const max = longestPages[name] ?? 100;
    if (!('limit' in shape)) continue;
    t.deepEqual(
      [shape.limit.safeParse(`${max}`).success, shape.limit.safeParse(`${max + 1}`).success],
      [true, false],
      name,
    );
  }
});

/** Who may call which routes. What a route declares is compared with it, because all cases follow from that. */
const callers: readonly [routes: RegExp, access: string][] = [
  [/ \/admin\//, 'operator'],
  [/ \/v1\/(files|batches)/, 'account'],
  [/ \/v1\/(models|requests)|^GET \/billing\//, 'either'],
  [/^(GET|POST) (\/|\/openapi\.json|\/plan-file\.schema\.json|\/v1\/keys\/guest)$/, 'none'],
  [/^POST \/v1\/(chat\/)?(completions|responses|messages|embeddings|rerank)|^GET \/v1\/key$/, 'key'],
  [/ \/v1\/(account|keys|webhooks)|^(PATCH|POST) \/billing\//, 'signIn'],
];
/** Answers with keys, codes or secrets, and files that may be deleted. */
const secret = / \/v1\/(keys|key|webhooks)|\/content$|^POST \/admin\/top-up-codes$/;

test('every route is open to the callers that it is meant for, and no cache may store an answer with a secret', (t) => {
  for (const name of routes) {
    t.is(documentedRoutes[name]?.access, callers.find(([pattern]) => pattern.test(name))?.[1] as never, name);
    t.is(documentedRoutes[name]?.noStore === true, secret.test(name), name);
  }
});
