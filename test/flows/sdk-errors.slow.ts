import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import Anthropic from '@anthropic-ai/sdk';
import test from 'ava';
import OpenAI from 'openai';
import { findPython, noPython } from '../support/documentation/run-examples.ts';
import { type Ask, assertSeen, openSdkErrors, sdkErrorsStack } from '../support/sdk-errors.ts';
import { openSharedStack } from '../support/shared-stack.ts';
import { skipTest } from '../support/skip-test.ts';

const python = await findPython();
const shared = openSharedStack(test, sdkErrorsStack);

let asks: Record<string, Ask>;
let proxy: Awaited<ReturnType<typeof openSdkErrors>>['proxy'];

test.before(async () => {
  ({ asks, proxy } = await openSdkErrors(await shared.started()));
});

test.after.always(() => proxy?.close());

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

const title = 'openai and anthropic for Python repeat only what can succeed, and the user reads what is wrong';
if (python === undefined) skipTest(test, { title, reason: noPython });
else {
  test(title, async (t) => {
    const running = promisify(execFile)(python, ['-c', script]);
    running.child.stdin?.end(JSON.stringify([proxy.url, asks]));
    const raised = JSON.parse((await running).stdout) as [string, string, number, string][]; // printed by the script
    for (const sdk of ['openai', 'anthropic']) {
      const seen = raised
        .filter(([of]) => of === sdk)
        .map(([, name, status, message]) => [name, { asked: proxy.askedOf(`python ${sdk} ${name}`), status, message }]);
      assertSeen(t, `${sdk} for Python`, Object.fromEntries(seen));
    }
  });
}
