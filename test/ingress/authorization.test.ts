import type { IncomingMessage } from 'node:http';
import test from 'ava';
import { bearerToken, invalidKey, invalidToken } from '../../ingress/authorization.ts';
import { ApiError } from '../../shared/errors.ts';

/** A request as far as this part of it is read: the values of each `Authorization` header, in order. */
const requestWith = (...values: string[]) =>
  ({ headersDistinct: values.length > 0 ? { authorization: values } : {} }) as unknown as IncomingMessage;

function codeFor(...values: string[]): string {
  try {
    return `token ${bearerToken(requestWith(...values))}`;
  } catch (error) {
    return error instanceof ApiError ? error.code : String(error);
  }
}

test('gives out the token, whatever the case of the scheme and the spaces around it', (t) => {
  for (const value of ['Bearer abc', 'bearer abc', 'BEARER   abc', 'Bearer abc  ']) t.is(codeFor(value), 'token abc');
  t.is(codeFor('Bearer svc_0aA'), 'token svc_0aA');
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

test('more than one header is INVALID_TOKEN, also where both are alike', (t) => {
  t.is(codeFor('Bearer a', 'Bearer b'), 'INVALID_TOKEN');
  t.is(codeFor('Bearer a', 'Bearer a'), 'INVALID_TOKEN');
  t.is(codeFor('', 'Bearer a'), 'INVALID_TOKEN');
});

test('a long header costs no more than a short one', (t) => {
  const startedAt = performance.now();
  t.is(codeFor(`Bearer ${' '.repeat(16_000)}!`), 'INVALID_TOKEN');
  t.is(codeFor(`Bearer ${'='.repeat(16_000)}!`), 'INVALID_TOKEN');
  t.is(codeFor(`Bearer ${'a'.repeat(16_000)}!`), 'INVALID_TOKEN');
  t.true(performance.now() - startedAt < 1_000);
});

test('what is refused is not repeated, and its cause is for the log', (t) => {
  const cause = new Error('signature verification failed');
  t.is(invalidToken(cause).cause, cause);
  t.is(invalidKey().code, 'INVALID_KEY');
  const error = t.throws(() => bearerToken(requestWith('Basic hunter2')), { instanceOf: ApiError });
  t.false(error.message.includes('hunter2'));
});
