import { execFile } from 'node:child_process';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import Anthropic from '@anthropic-ai/sdk';
import test, { type ExecutionContext } from 'ava';
import OpenAI from 'openai';
import { findPython, noPython } from '../support/documentation/run-examples.ts';
import { everyEndpoint } from '../support/every-endpoint.ts';
import { createKeyClient } from '../support/key-client.ts';
import { openSharedStack } from '../support/shared-stack.ts';

const python = await findPython();
const { everything } = everyEndpoint;
const bodyBytesMax = 65_536;
const shared = openSharedStack(test, {
  models: {
    ...everyEndpoint,
    'down-chat': { ...everything, backends: ['onprem-b'] },
    premium: { ...everything, tier: 'premium' },
  },
  plans: { 'one-token': { tokens_per_month: 1, model_tiers: ['guest'] } },
  env: { BODY_BYTES_MAX: String(bodyBytesMax) },
});

type Ask = { key: string; model: string; content: string; temperature: number };
/** What an SDK did: how often it asked, the status that it reports, and what the user reads. */
type Seen = { asked: number; status: number | undefined; message: string };
/** `asked`: how often a request goes out with the usual settings of the SDK. */
type Expected = { asked: number; status: number; reads: RegExp };

const expectations: Record<string, Expected> = {
  'a wrong key': { asked: 1, status: 401, reads: /The API key is malformed/ },
  'a used-up month': { asked: 1, status: 402, reads: /monthly quota is used up/ },
  'a key that may not': { asked: 1, status: 403, reads: /may not use/ },
  'an unknown model': { asked: 1, status: 404, reads: /no such model \\?"none\\?"; the plan/ },
  'a wrong field': { asked: 1, status: 400, reads: /temperature/ },
  'a body that is too large': { asked: 1, status: 413, reads: /larger than 65536 bytes/ },
  'a model outside the plan': { asked: 1, status: 429, reads: /upgrade is required/ },
  'no model server that answers': { asked: 3, status: 503, reads: /No model server could answer/ },
};

let asks: Record<string, Ask>;
let proxy: Awaited<ReturnType<typeof startCountingProxy>>;

test.before(async () => {
  const stack = await shared.started();
  const keys = createKeyClient(stack);
  const [key, spent] = [await keys.newKey('sdk-errors'), await keys.newKey('sdk-errors-spent')];
  await keys.change('user:sdk-errors-spent', { plan: 'one-token' });
  await keys.infer(spent, 'everything');
  const bearer = await keys.token('sdk-errors');
  const limited = await keys.send('POST', '/v1/keys', {
    bearer,
    body: { name: 'limited', endpoints: ['/v1/embeddings'] },
  });
  stack.modelServers[1]?.fail({ status: 500 }, 'down-chat');
  const usual = { key, model: 'everything', content: 'Hi', temperature: 1 };
  asks = {
    'a wrong key': { ...usual, key: 'svc_wrong' },
    'a used-up month': { ...usual, key: spent },
    'a key that may not': { ...usual, key: String(limited.body.key) },
    'an unknown model': { ...usual, model: 'none' },
    'a wrong field': { ...usual, temperature: 9 },
    'a body that is too large': { ...usual, content: 'x'.repeat(bodyBytesMax) },
    'a model outside the plan': { ...usual, model: 'premium' },
    'no model server that answers': { ...usual, model: 'down-chat' },
  };
  proxy = await startCountingProxy(Number(new URL(stack.ingresses[0]?.url ?? '').port));
});

test.after.always(() => proxy?.close());

/** Passes everything on to this port, and counts the requests by their header `x-case`. */
async function startCountingProxy(port: number) {
  const counts = new Map<string, number>();
  const server = createServer((req, res) => {
    const name = String(req.headers['x-case']);
    counts.set(name, (counts.get(name) ?? 0) + 1);
    const passed = request({ port, host: '127.0.0.1', path: req.url, method: req.method, headers: req.headers });
    passed.on('response', (answer) => {
      res.writeHead(answer.statusCode ?? 0, answer.headers);
      answer.pipe(res);
    });
    passed.on('error', () => res.destroy());
    req.pipe(passed);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`; // a TCP server's address
  return { url, askedOf: (name: string) => counts.get(name) ?? 0, close: () => server.close() };
}

function assertSeen(t: ExecutionContext, sdk: string, seen: Record<string, Seen>): void {
  for (const [name, { asked, status, reads }] of Object.entries(expectations)) {
    t.like(seen[name], { asked, status }, `${sdk}, ${name}: ${seen[name]?.message}`);
    t.regex(seen[name]?.message ?? '', reads, `${sdk}, ${name}`);
  }
}

const nodeSdks: Record<string, (ask: Ask, headers: Record<string, string>) => Promise<unknown>> = {
  openai: ({ key, model, content, temperature }, headers) =>
    new OpenAI({ apiKey: key, baseURL: `${proxy.url}/openai/v1`, defaultHeaders: headers }).chat.completions.create({
      ...{ model, temperature, messages: [{ role: 'user', content }] },
    }),
  anthropic: ({ key, model, content, temperature }, headers) =>
    new Anthropic({ apiKey: key, baseURL: proxy.url, defaultHeaders: headers }).messages.create({
      ...{ model, temperature, max_tokens: 20, messages: [{ role: 'user', content }] },
    }),
};

for (const [sdk, call] of Object.entries(nodeSdks)) {
  test(`${sdk} for Node repeats only what can succeed, and the user reads what is wrong`, async (t) => {
    const seen = await Promise.all(
      Object.entries(asks).map(async ([name, ask]) => {
        const id = `node ${sdk} ${name}`;
        const error = await t.throwsAsync(call(ask, { 'x-case': id }), undefined, name);
        const { status, message } = error as Error & { status?: number }; // of the SDK
        return [name, { asked: proxy.askedOf(id), status, message }] as const;
      }),
    );
    assertSeen(t, sdk, Object.fromEntries(seen));
  });
}

/** Asks each question with both packages, at the same time, and prints what they raise. */
const script = `
import json, sys
from concurrent.futures import ThreadPoolExecutor
import anthropic, openai

url, asks = json.load(sys.stdin)

def ask(sdk, name, a):
    common = {"api_key": a["key"], "default_headers": {"x-case": f"python {sdk} {name}"}}
    question = {"model": a["model"], "messages": [{"role": "user", "content": a["content"]}], "extra_body": {"temperature": a["temperature"]}}
    try:
        if sdk == "openai":
            openai.OpenAI(base_url=url + "/openai/v1", **common).chat.completions.create(**question)
        else:
            anthropic.Anthropic(base_url=url, **common).messages.create(max_tokens=20, **question)
        return [sdk, name, None, "no error"]
    except (openai.APIStatusError, anthropic.APIStatusError) as error:
        return [sdk, name, error.status_code, str(error)]

with ThreadPoolExecutor(16) as pool:
    calls = [pool.submit(ask, sdk, name, a) for sdk in ("openai", "anthropic") for name, a in asks.items()]
    print(json.dumps([call.result() for call in calls]))
`;

(python === undefined ? test.skip : test)(
  `openai and anthropic for Python repeat only what can succeed, and the user reads what is wrong${python === undefined ? `: ${noPython}` : ''}`,
  async (t) => {
    const running = promisify(execFile)(python ?? '', ['-c', script]);
    running.child.stdin?.end(JSON.stringify([proxy.url, asks]));
    const raised = JSON.parse((await running).stdout) as [string, string, number, string][]; // printed by the script
    for (const sdk of ['openai', 'anthropic']) {
      const seen = raised
        .filter(([of]) => of === sdk)
        .map(([, name, status, message]) => [name, { asked: proxy.askedOf(`python ${sdk} ${name}`), status, message }]);
      assertSeen(t, `${sdk} for Python`, Object.fromEntries(seen));
    }
  },
);
