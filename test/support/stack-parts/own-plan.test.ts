import { once } from 'node:events';
import { appendFile, mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { parsePlanFile } from '../../../shared/plan-file/plan-file.ts';
import { freePort } from '../../stack/free-port.ts';
import { startModelServer } from '../../stack/model-server.ts';
import type { WantedBackend } from '../../stack/own-backends.ts';
import { openOwnPlan, ownPlanText } from '../../stack/own-plan.ts';
import { parseStartOptions } from '../../stack/start-options.ts';

async function planFileAt(t: ExecutionContext): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'own-plan-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  return join(directory, 'backend-plans.yaml');
}

/** A server of ours that answers in this way. Returns its address, without a path. */
async function serve(t: ExecutionContext, answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`; // a TCP listener has one
}

const listing =
  (data: readonly object[], path = '/v1/models'): RequestListener =>
  ({ url }, response) =>
    url === path ? response.end(JSON.stringify({ object: 'list', data })) : response.writeHead(404).end('none');

async function open(t: ExecutionContext, wanted: readonly WantedBackend[], env: Record<string, string> = {}) {
  const file = await planFileAt(t);
  return { file, ...(await openOwnPlan({ file, wanted, again: false, variableOf: (name) => env[name] })) };
}

const refusal = async (t: ExecutionContext, url: string, more: Partial<WantedBackend> = {}) =>
  (await t.throwsAsync(open(t, [{ url, ...more }], { GPU_KEY: 'a-wrong-key' }))).message;

test('the plan file has the servers and the models that they list, and says so', async (t) => {
  await using first = await startModelServer({ name: 'gpu', models: ['llama3.2', 'nomic-embed-text', 'bge-reranker'] });
  const second = await serve(t, listing([{ id: 'llama3.2' }, { id: 'vectors', task: 'embed' }, { id: 'a b' }, {}]));
  const { file, found, planFile } = await open(t, [{ url: first.url.replace('/v1', '') }, { url: `${second}/v1/` }]);
  t.deepEqual(found, [
    `${first.url}: llama3.2, nomic-embed-text, bge-reranker`,
    `${second}/v1: llama3.2, vectors (2 left out: too many, or with names that a plan file cannot have)`,
  ]);
  const [own, other] = [first.url, `${second}/v1`].map((url) => new URL(url).host);
  t.deepEqual(Object.keys(planFile.backends), [own, other]);
  t.like(planFile.backends[own ?? ''], { url: first.url, location: 'on-prem' });
  t.like(planFile.models, {
    'llama3.2': { backends: [own, other], endpoints: ['chat', 'completions'], clampOutputTokens: true },
    'nomic-embed-text': { backends: [own], endpoints: ['embeddings'] },
    'bge-reranker': { endpoints: ['rerank'] },
    vectors: { backends: [other], endpoints: ['embeddings'] },
  });
  t.regex(
    await readFile(file, 'utf8'),
    /^# Written by npm start -- --backend.*\n(?:# .*\n|#\n)*# models\.<name>\.endpoints/,
  );
});

test('what the server says of a model counts more than its name', async (t) => {
  const models = [
    { id: 'e5-chat', type: 'chat' },
    { id: 'plain', capabilities: { embedding: true, completion_chat: false } },
    { id: 'embedder', capabilities: ['completion', 'embedding'] },
    { id: 'BAAI/bge-m3', type: 7 },
  ];
  const { planFile } = await open(t, [{ url: await serve(t, listing(models, '/models')) }]);
  const endpoints = Object.entries(planFile.models).map(([name, model]) => [name, model.endpoints.join()]);
  t.deepEqual(endpoints, [
    ['e5-chat', 'chat,completions'],
    ['plain', 'embeddings'],
    ['embedder', 'chat,completions'],
    ['BAAI/bge-m3', 'embeddings'],
  ]);
});

test('own changes of the plan file stay, without a server to ask, until it is to be written again', async (t) => {
  const server = await startModelServer({ name: 'gpu', models: ['one'] });
  const wanted = [{ url: server.url }];
  const { file } = await open(t, wanted);
  await appendFile(file, '# my own line\n');
  const mine = await readFile(file, 'utf8');
  const variableOf = () => undefined;
  const later = await openOwnPlan({ file, wanted, again: false, variableOf });
  t.deepEqual([later.found, await readFile(file, 'utf8')], [[], mine]);

  const other = openOwnPlan({ file, wanted: [{ url: 'http://127.0.0.1:1' }], again: false, variableOf });
  t.regex(
    (await t.throwsAsync(other)).message,
    /has no backend with the address http:\/\/127\.0\.0\.1:1\. .*--write-plan/,
  );
  await openOwnPlan({ file, wanted, again: true, variableOf });
  t.false((await readFile(file, 'utf8')).includes('my own line'));

  await server[Symbol.asyncDispose]();
  await t.throwsAsync(openOwnPlan({ file, wanted, again: true, variableOf }), { message: /ECONNREFUSED/ });
  await appendFile(file, 'models: none\n');
  const broken = await t.throwsAsync(openOwnPlan({ file, wanted, again: false, variableOf }));
  t.regex(broken.message, /backend-plans\.yaml:\d+:\d+: .*\n.*--write-plan/s);
});

test('an API key comes from a variable, goes to its server only, and is in no file', async (t) => {
  await using locked = await startModelServer({ name: 'gpu', models: ['one'], apiKey: 'the-secret' });
  let seen: unknown = 'nothing';
  const openServer = await serve(t, (request, response) => {
    seen = request.headers.authorization;
    listing([{ id: 'two' }])(request, response as Parameters<RequestListener>[1]);
  });
  const args = ['--backend', locked.url, '--backend-key-env', 'GPU_KEY', '--backend', openServer];
  const options = parseStartOptions(args);
  if (options === 'help') return t.fail();
  const { file, planFile, variables } = await open(t, options.backends, { GPU_KEY: 'the-secret', OTHER: 'x' });
  t.deepEqual(Object.keys(planFile.models), ['one', 'two']);
  t.deepEqual(variables, { GPU_KEY: 'the-secret' });
  t.is(seen, undefined);
  const text = await readFile(file, 'utf8');
  t.true(text.includes('api_key_env: GPU_KEY') && !text.includes('the-secret'));

  t.regex(await refusal(t, locked.url), /401, it wants an API key.*--backend-key-env NAME/);
  t.regex(await refusal(t, locked.url, { apiKeyEnv: 'GPU_KEY' }), /401, it refuses the API key in GPU_KEY/);
  t.regex(await refusal(t, locked.url, { apiKeyEnv: 'NONE' }), /The variable NONE is not set/);
});

test('a server that cannot be used is named, with the reason and what to check', async (t) => {
  const port = await freePort();
  t.regex(
    await refusal(t, `http://127.0.0.1:${port}`),
    new RegExp(`^http://127\\.0\\.0\\.1:${port}/v1: no connection \\(ECONNREFUSED\\)\\. Does the server run`),
  );
  const answers: [RequestListener, RegExp][] = [
    [(_, response) => response.end('<html>'), /not a list of models in JSON/],
    [(_, response) => response.end('{"models":{}}'), /not a list of models in JSON/],
    [(_, response) => response.end(`{"data":["${'x'.repeat(2_000_000)}"]}`), /not a list of models in JSON/],
    [(_, response) => response.end('[]'), /lists no models\. Load or pull/],
    [(_, response) => response.end('{"data":[{"id":"\\u001b[31m"}]}'), /no model with a name/],
    [(_, response) => response.writeHead(404).end(), /it answers 404/],
    [(_, response) => response.writeHead(503).end(), /it answers 503/],
    [({ url }, response) => response.writeHead(url === '/models' ? 429 : 404).end(), /\d\/models: it answers 429/],
  ];
  for (const [answer, reason] of answers) {
    const message = await refusal(t, await serve(t, answer));
    t.regex(message, reason);
    t.true(message.length < 500);
  }
  t.regex(await refusal(t, 'localhost:11434'), /expected an address such as/);
  const withSecret = await refusal(t, 'http://me:secret@host/v1');
  t.regex(withSecret, /no user, password or parameters/);
  t.false(withSecret.includes('secret'));
});

test('options that do not fit each other are refused', (t) => {
  const refused: [string[], RegExp][] = [
    [['--backend-key-env', 'KEY'], /needs a --backend before it/],
    [['--backend', 'http://a/v1', '--backend-key-env', 'sk-secret'], /not the API key itself/],
    [['--backend', 'http://a/v1', '--engine'], /exclude each other/],
    [['--write-plan'], /needs --backend/],
    [['--backends'], /Unknown option/],
  ];
  for (const [args, reason] of refused) t.throws(() => parseStartOptions(args), { message: reason });
  t.is(parseStartOptions(['--help']), 'help');
});

test('servers of one host, of a provider and of an IPv6 address have names and places of their own', (t) => {
  const models = [{ name: 'one', endpoints: ['chat'] }];
  const urls = [
    'http://gpu/a/v1',
    'http://gpu/b/v1',
    'https://api.example.com/v1',
    'https://gpu.lan/v1',
    'http://[::1]:8000/v1',
  ];
  const parsed = parsePlanFile(ownPlanText(urls.map((url) => ({ url, models, leftOut: 0 }))));
  if ('issues' in parsed) return t.fail(JSON.stringify(parsed.issues));
  const { backends } = parsed.planFile;
  t.deepEqual(
    Object.entries(backends).map(([name, { location }]) => `${name} ${location}`),
    ['gpu on-prem', 'gpu/2 on-prem', 'api.example.com cloud', 'gpu.lan on-prem', '1:8000 on-prem'],
  );
});
