import type { IncomingMessage } from 'node:http';
import test from 'ava';
import {
  invalidKey,
  invalidToken,
  keyCredential,
  sentCredential,
} from '../../../ingress/authentication/authorization.ts';
import { ApiError } from '../../../shared/errors.ts';

/** The part of a request that is read: the values of each `Authorization` header, in order. */
const requestWith = (...values: string[]) =>
  ({ rawHeaders: values.flatMap((value) => ['Authorization', value]) }) as unknown as IncomingMessage;

function codeOf(request: IncomingMessage, wanted: 'API key' | 'sign-in token' = 'API key'): string {
  try {
    const { token, isKey } = sentCredential(request, wanted);
    return `${isKey ? 'key' : 'token'} ${token}`;
  } catch (error) {
    return error instanceof ApiError ? error.code : String(error);
  }
}

const codeFor = (...values: string[]) => codeOf(requestWith(...values));

test('returns the token for any case of the scheme and any spaces around it', (t) => {
  for (const value of ['Bearer abc', 'bearer abc', 'BEARER   abc', 'Bearer abc  ']) t.is(codeFor(value), 'token abc');
  t.is(codeFor('Bearer svc_0aA'), 'key svc_0aA');
  t.is(codeFor('Bearer eyJ.a-b_c~d+e/f.g=='), 'token eyJ.a-b_c~d+e/f.g==');
});

test('no header, or only empty ones, is NO_AUTH', (t) => {
  t.is(codeFor(), 'NO_AUTH');
  t.is(codeFor(''), 'NO_AUTH');
  t.is(codeFor('   '), 'NO_AUTH');
  t.is(codeFor('', ''), 'NO_AUTH');
});

test('any other form is INVALID_TOKEN', (t) => {
  for (const value of [
    'Bearer',
    'Bearer ',
    'Bearer a b',
    'Bearer "a"',
    'Bearer a,b',
    'Bearerabc',
    'Bearer\tabc',
    'Basic YTpi',
    'abc',
    'Bearer a=b',
    'Bearer =',
    'Bearer é',
    'Bearer Bearer abc',
  ]) {
    t.is(codeFor(value), 'INVALID_TOKEN', value);
  }
});

test('more than one header is INVALID_TOKEN, even if both are equal', (t) => {
  t.is(codeFor('Bearer a', 'Bearer b'), 'INVALID_TOKEN');
  t.is(codeFor('Bearer a', 'Bearer a'), 'INVALID_TOKEN');
  t.is(codeFor('', 'Bearer a'), 'INVALID_TOKEN');
});

const sending = (headers: Record<string, string>) =>
  ({ rawHeaders: Object.entries(headers).flat() }) as unknown as IncomingMessage; // the part that is read

test('a key may be in any of three headers, and what is in the other two is always taken for a key', (t) => {
  for (const name of ['x-api-key', 'X-API-Key', 'api-key', 'Api-Key']) {
    t.is(codeOf(sending({ [name]: ' svc_0aA ' })), 'key svc_0aA', name);
    t.is(codeOf(sending({ [name]: 'no key of ours' })), 'key no key of ours', name);
    t.is(codeOf(sending({ [name]: 'eyJ.a.b' }), 'sign-in token'), 'key eyJ.a.b', name);
    t.is(codeOf(sending({ authorization: '', [name]: 'svc_0aA' })), 'key svc_0aA', name);
    t.is(codeOf(sending({ [name]: ' ' })), 'NO_AUTH', name);
  }
});

test('the same key in several headers is one key, and two different credentials are INVALID_TOKEN', (t) => {
  const [key, bearer] = ['svc_0aA', 'Bearer svc_0aA'];
  t.is(codeOf(sending({ authorization: bearer, 'x-api-key': key, 'api-key': key })), 'key svc_0aA');
  for (const headers of [
    { authorization: bearer, 'x-api-key': 'svc_0aB' },
    { authorization: 'Bearer eyJ.a.b', 'x-api-key': key },
    { 'x-api-key': key, 'api-key': 'svc_0aB' },
    { 'x-api-key': key, 'X-Api-Key': key },
    { authorization: 'Basic YTpi', 'x-api-key': key },
    { authorization: 'Bearer', 'x-api-key': key },
  ]) {
    t.is(codeOf(sending(headers)), 'INVALID_TOKEN', JSON.stringify(headers));
  }
});

test('a route that takes only sign-in tokens does not read the other headers if it has one', (t) => {
  t.is(codeOf(sending({ authorization: 'Bearer eyJ.a.b', 'x-api-key': 'svc_0aA' }), 'sign-in token'), 'token eyJ.a.b');
});

test('a refusal says what is wrong with the header, and what the route accepts', (t) => {
  const messageFor = (...values: string[]) =>
    t.throws(() => sentCredential(requestWith(...values), 'sign-in token'), { instanceOf: ApiError })?.message;
  const help = 'Send "Authorization: Bearer <sign-in token>".';
  t.is(messageFor(), `No Authorization header. ${help}`);
  const withoutAny = t.throws(() => sentCredential(requestWith(''), 'API key'));
  t.is(withoutAny?.message, 'No Authorization, x-api-key or api-key header. Send "Authorization: Bearer <API key>".');
  const noScheme = `The Authorization header does not begin with "Bearer ". ${help}`;
  for (const value of ['svc_abc', 'Basic YTpi', 'Bearerabc', 'Bearer\tabc']) t.is(messageFor(value), noScheme, value);
  t.is(messageFor('Bearer a', 'Bearer a'), 'More than one Authorization header.');
  const neither = 'The bearer value is neither an API key nor a valid sign-in token.';
  for (const value of ['Bearer', 'Bearer a b', 'Bearer é']) t.is(messageFor(value), neither, value);
});

test('a key with a typo is refused as malformed, always with the same message', (t) => {
  for (const key of ['svc_', `svc_${'a'.repeat(38)}`, 'svc_****', `svc_${'a'.repeat(500)}`]) {
    const error = t.throws(() => keyCredential(key, ['a pepper']), { instanceOf: ApiError });
    t.is(error?.code, 'INVALID_KEY');
    t.is(error?.message, 'The API key is malformed: it is incomplete, or has a typing error.');
  }
});

test('a long header costs no more than a short one', (t) => {
  const before = process.threadCpuUsage();
  t.is(codeFor(`Bearer ${' '.repeat(16_000)}!`), 'INVALID_TOKEN');
  t.is(codeFor(`Bearer ${'='.repeat(16_000)}!`), 'INVALID_TOKEN');
  t.is(codeFor(`Bearer ${'a'.repeat(16_000)}!`), 'INVALID_TOKEN');
  t.true(process.threadCpuUsage(before).user < 1_000_000);
});

test('a refusal does not repeat the token, and its cause is for the log', (t) => {
  const cause = new Error('signature verification failed');
  t.is(invalidToken(cause).cause, cause);
  t.is(invalidKey().code, 'INVALID_KEY');
  const error = t.throws(() => sentCredential(requestWith('Basic hunter2'), 'API key'), { instanceOf: ApiError });
  t.false(error.message.includes('hunter2'));
});
