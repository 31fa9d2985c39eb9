import { existsSync, readdirSync } from 'node:fs';
import test from 'ava';
import { parse, stringify } from 'yaml';
import { limitTypes } from '../../../ingress/api/refusals.ts';
import { linkedPage, readPages, reference } from '../../../ingress/documentation/page-list.ts';
import { exampleModels } from '../../../ingress/documentation/reference/request-example.ts';
import { fillPlaceholders, renderMarkdown } from '../../../ingress/documentation/render-markdown.ts';
import { placeholders } from '../../../ingress/pages/documentation-site.ts';
import { usageSchema } from '../../../ingress/usage/usage-report.ts';
import { endpointAt, endpoints } from '../../../shared/endpoints/endpoints.ts';
import {
  type ApiError,
  deadlineExceeded,
  type ErrorCode,
  errorBody,
  errorCodes,
  errorFrame,
  replyLost,
  temporarilyUnavailable,
  toApiError,
  upstreamsExhausted,
} from '../../../shared/errors.ts';
import { parsePlanFile } from '../../../shared/plan-file/plan-file.ts';
import { settingNames } from '../../../shared/process/settings.ts';
import { parseLine } from '../../../workers/batches/files/parse-line.ts';
import { unfinished } from '../../../workers/batches/lines/line-results.ts';
import { startedModels } from '../../stack/started-models.ts';
import { batchPlan, lineRules } from '../../support/batch-plan.ts';
import { misfits, textFits } from '../../support/documentation/fits-example.ts';
import { examplesOf } from '../../support/documentation/page-examples.ts';

const docsUrl = 'https://docs.example.com';
const links = { baseUrl: 'https://api.example.com', authUrl: 'https://auth.example.com', docsUrl };
const plan = batchPlan({ models: startedModels });
const values = placeholders(
  { ...links, consoleUrl: 'https://c.example', topupUrl: 'https://t.example' },
  exampleModels(plan),
);
const pages = readPages().map(({ name, markdown }) => {
  const page = renderMarkdown(markdown, {
    hrefOf: (link) => `/${linkedPage(name, link)}`,
    fill: (text) => fillPlaceholders(text, values),
  });
  return { name, ...page, examples: examplesOf(fillPlaceholders(markdown, values)) };
});
const errors = pages.find(({ name }) => name === 'errors');
const idsOn = new Map(
  pages.map(({ name, html }) => [name, new Set([...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id))]),
);

test('every code, limit type and line code has a section on the page of errors', (t) => {
  const lineCodes = Object.values(unfinished).map(({ code }) => code);
  const anchors = [...Object.keys(errorCodes), ...Object.keys(limitTypes), 'quota_limit', ...lineCodes];
  t.deepEqual(
    anchors.filter((anchor) => !idsOn.get('errors')?.has(anchor)),
    [],
  );
});

test('the page of errors has each code in its table, with its status, and nothing else', (t) => {
  const rows = [
    ...(errors?.html ?? '').matchAll(/<tr><td><a href="#(\w+)"><code>(\w+)<\/code><\/a><\/td><td>(.*?)<\/td>/g),
  ];
  const reported = Object.fromEntries(rows.map(([, anchor, code, status]) => [code, anchor === code && status]));
  const known = Object.entries(errorCodes).map(([code, { status }]) => [code, String(status)]);
  t.deepEqual(reported, { ...Object.fromEntries(known), UPSTREAM_INTERRUPTED: 'none: in a stream' });
});

test('the section of each code starts with its status, and says what to do, whether to retry, and the body', (t) => {
  for (const [code, { status, retryable }] of Object.entries(errorCodes)) {
    const [, section = ''] =
      new RegExp(`<h3 id="${code}">.*?</h3>(.*?)(?=<h[23] |$)`, 's').exec(errors?.html ?? '') ?? [];
    const where = code === 'UPSTREAM_INTERRUPTED' ? 'In a stream' : `${status}`;
    t.true(section.trimStart().startsWith(`<p><strong>${where}.</strong> `), `${code}: ${section.slice(0, 100)}`);
    t.true(section.includes('<p><strong>What to do:</strong> '), code);
    const [, retry = ''] = /<strong>Retry:<\/strong> (yes|no)\b/.exec(section) ?? [];
    t.is(retry, retryable ? 'yes' : 'no', code);
    t.true(section.includes('<div class="code"'), code);
  }
});

test('the table of errors says of each code whether to retry, as its section does', (t) => {
  for (const [code, { retryable }] of Object.entries(errorCodes)) {
    const [row = ''] = new RegExp(`<tr><td><a href="#${code}">.*?</tr>`).exec(errors?.html ?? '') ?? [];
    t.regex(row, retryable ? /<td>yes\b[^<]*/ : /<td>no\b[^<]*/, code);
  }
});

test('the shown errors of lines of batches are real', (t) => {
  for (const error of Object.values(unfinished)) {
    const shown = errors?.examples.filter((one) => one.role === 'error' && one.about === error.code) ?? [];
    t.deepEqual(
      shown.map(({ text }) => JSON.parse(text)),
      [error],
    );
  }
});

test('every link within the documentation has a target', (t) => {
  for (const { name, html } of pages) {
    for (const [, href = ''] of html.matchAll(/href="([#/][^"]*)"/g)) {
      const [path = '', anchor] = href.split('#');
      const page = path === '' ? name : path.slice(1);
      t.true(page === reference.name || idsOn.has(page), `${name}: ${href}`);
      if (anchor !== undefined) t.true(idsOn.get(page)?.has(anchor), `${name}: ${href}`);
    }
  }
});

test('a link is relative to the file that it is in', (t) => {
  t.is(linkedPage('errors', 'limits'), 'limits');
  t.is(linkedPage('errors', 'internals/contract'), 'internals/contract');
  t.is(linkedPage('internals/contract', 'glossary'), 'internals/glossary');
  t.is(linkedPage('internals/contract', '../errors'), 'errors');
});

test('every page about an endpoint is in the navigation, and every endpoint has one', (t) => {
  const files = readdirSync(new URL('../../../ingress/documentation/endpoints', import.meta.url));
  const listed = readPages().filter(({ name }) => name.startsWith('endpoints/'));
  t.deepEqual(files.toSorted(), listed.map(({ name }) => `${name.replace('endpoints/', '')}.md`).toSorted());
  for (const { path } of endpoints)
    t.true(
      listed.some(({ markdown }) => markdown.includes(`POST ${path}\``)),
      path,
    );
});

test('every page is in the navigation', (t) => {
  const files = readdirSync(new URL('../../../ingress/documentation', import.meta.url), { recursive: true })
    .map(String)
    .filter((name) => name.endsWith('.md'));
  t.deepEqual(
    files.toSorted(),
    readPages()
      .map(({ name }) => `${name}.md`)
      .toSorted(),
  );
});

/** Responses of a service in which a part has failed; all others are compared with responses of a stack. */
const failures: Partial<Record<ErrorCode, ApiError>> = {
  INTERNAL_ERROR: toApiError(new Error('a fault')),
  SERVICE_UNAVAILABLE: temporarilyUnavailable(),
  UPSTREAMS_EXHAUSTED: upstreamsExhausted('standard', ['onprem-a', 'onprem-b', 'cloud']),
  DEADLINE_EXCEEDED: deadlineExceeded(),
  UPSTREAM_INTERRUPTED: replyLost(true),
};

test('shown errors of a failing service are real', (t) => {
  for (const example of pages.flatMap(({ examples }) => examples)) {
    if (example.role !== 'error' && example.role !== 'frame') continue;
    const failure = failures[example.about as ErrorCode]; // or not a failure
    if (failure === undefined) continue;
    const body = example.role === 'frame' ? errorFrame(failure) : errorBody(failure, docsUrl);
    t.deepEqual(misfits(JSON.parse(example.text), body), [], example.about);
  }
});

test('each code with a special body is shown', (t) => {
  const shown = new Set(errors?.examples.flatMap((example) => (example.role === 'error' ? [example.about] : [])));
  for (const code of Object.keys(errorCodes)) t.is(shown.has(code), code !== 'UPSTREAM_INTERRUPTED', code);
});

test('a shown end of an interrupted stream is the real one', (t) => {
  const shown = pages.flatMap(({ examples }) => examples).filter(({ role }) => role === 'ending');
  t.true(shown.length >= 2);
  for (const example of shown) {
    if (example.role !== 'ending') continue;
    const { path } = example;
    const failure = failures[example.about as ErrorCode]; // or not a failure
    const end = failure && endpointAt(path).answer.stream?.ending().broken(failure, 'req_1');
    t.true(textFits(example.text, end ?? 'none'), end);
  }
});

test('settings of other programs use the addresses of this service, and the key of the examples', (t) => {
  const shown = pages.flatMap(({ examples }) => examples).filter(({ role }) => role === 'settings');
  t.true(shown.length >= 2);
  const bases = [links.baseUrl, `${links.baseUrl}/openai/v1`];
  for (const { text } of shown) {
    const addresses = text.match(/https?:[^\s"']+/g) ?? [];
    t.true(addresses.length > 0, text);
    for (const address of addresses) t.true(bases.includes(address), address);
    t.regex(text, /\bKEY\b/);
  }
});

const answers: Record<string, { safeParse(value: unknown): { success: boolean } }> = { usage: usageSchema };

/** A plan file with these backends. */
function planWith(backends: string): string {
  const model = {
    tier: 'guest',
    pool: 'default',
    output_tokens_max: 100,
    backends: Object.keys(parse(backends).backends),
  };
  const plans = { free: { model_tiers: ['guest'] }, 'guest-device': { requests_per_day: 1, model_tiers: ['guest'] } };
  return `${stringify({ default_plan: 'free', plans, models: { model } })}${backends}\n`;
}

test('shown responses, plan files and batch lines are valid for the service', (t) => {
  const seen = new Set<string>();
  for (const example of pages.flatMap(({ examples }) => examples)) {
    seen.add(example.role);
    if (example.role === 'answer')
      t.true(answers[example.about]?.safeParse(JSON.parse(example.text)).success, example.text);
    if (example.role === 'plan') t.true('planFile' in parsePlanFile(example.text), example.text);
    if (example.role === 'backends') t.true('planFile' in parsePlanFile(planWith(example.text)), example.text);
    if (example.role !== 'line') continue;
    for (const [index, line] of example.text.split('\n').entries()) {
      const { url: endpoint } = JSON.parse(line);
      const rules = { ...lineRules(plan), endpoint };
      const read = parseLine({ number: index + 1, bytes: Buffer.from(line) }, rules);
      t.true('parsed' in read, line);
    }
  }
  for (const role of [
    'answer',
    'plan',
    'backends',
    'line',
    'error',
    'frame',
    'stream',
    'ending',
    'settings',
    'run',
    'output',
    'query',
  ])
    t.true(seen.has(role), role);
});

test('a code block that is neither run nor checked is reported', (t) => {
  for (const info of ['', 'sh', 'json', 'yaml', 'ts output', 'text', 'python check']) {
    t.throws(() => examplesOf(`## Here\n\n\`\`\`${info}\nx\n\`\`\`\n`), { message: /under "Here"/ }, info);
  }
  t.throws(() => examplesOf('```json output\n{}\n```'), { message: /output without a command/ });
  t.throws(() => examplesOf('    indented'), { message: /neither run nor checked/ });
});

test('an example matches only what it shows', (t) => {
  t.deepEqual(
    misfits({ a: 'svc_…', b: 1, c: null, d: ['x', '…'] }, { a: 'svc_1', b: 7, c: null, d: ['x', 'y', 'z'] }),
    [],
  );
  t.deepEqual(misfits({ a: 'svc_…' }, { a: 'key_1' }), ['$.a is "key_1"']);
  t.deepEqual(misfits({ a: 1 }, { a: '1' }), ['$.a is "1"']);
  t.deepEqual(misfits({ a: 1 }, { b: 1 }), ['$.a is missing', '$.b is not shown']);
  t.deepEqual(misfits({ a: null }, { a: 1 }), ['$.a is 1']);
  t.deepEqual(misfits(['x'], ['x', 'y']).length, 1);
  t.deepEqual(misfits(['x', 'y', '…'], ['x']).length, 1);
  t.deepEqual(misfits([], {}).length, 1);
  t.deepEqual(misfits({}, []).length, 1);
});

test('each threat on the page of security names existing tests and settings', (t) => {
  const { markdown = '' } = readPages().find(({ name }) => name === 'security') ?? {};
  const rows = markdown.split('\n').filter((line) => /^\| (?!attacker |---)/.test(line));
  t.true(rows.length > 20);
  for (const row of rows) {
    const tests = [...row.matchAll(/`(test\/[^`]+)`/g)].map(([, path = '']) => path);
    t.not(tests.length, 0, row);
    for (const path of tests) t.true(existsSync(new URL(`../../../${path}`, import.meta.url)), path);
  }
  const known = new Set([...settingNames.ingress, ...settingNames.worker]);
  const named = [...markdown.matchAll(/`([A-Z]+_[A-Z_]+)`/g)].map(([, name = '']) => name);
  t.deepEqual(
    named.filter((name) => !known.has(name)),
    [],
  );
});
