import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { demoAccount } from './demo-key.ts';
import type { Stack } from './stack.ts';
import { startedAliases } from './started-models.ts';

type Served = Readonly<Record<string, { endpoints?: readonly string[] }>>;

/** The six lines of `npm start` when it is ready. */
export function readyLines({ url, key }: { url: string; key: string | undefined }): string[] {
  return [
    `Console   ${url}/console`,
    `API       ${url} (for OpenAI's SDKs ${url}/openai/v1)`,
    `Docs      ${url}/docs`,
    `Sign in   with any name: ${demoAccount} has the key below, olga is an operator`,
    `Key       ${key === undefined ? 'none: the store does not answer. Create one in the console when it does' : `export KEY=${key}`}`,
    'Stop      Ctrl-C',
  ];
}

type Details = { stack: Stack; url: string; models: Served; servers: readonly { url: string }[]; token: string };

/** All the rest, for `--verbose`. */
export function detailLines({ stack, url, models, servers, token }: Details): string[] {
  const headers = `-H "authorization: Bearer $KEY" -H 'content-type: application/json'`;
  const offers = (endpoint: string) => Object.keys(models).find((name) => models[name]?.endpoints?.includes(endpoint));
  const [chat, embed] = [offers('chat'), offers('embeddings')];
  const chatBody = `{"model":"${chat}","messages":[{"role":"user","content":"Hello"}]}`;
  return [
    `Models             ${modelsShown(models)}`,
    `Operations         ${stack.ingresses[0]?.operationsUrl}/readyz (ingress), ${stack.workers[0]?.operationsUrl}/readyz (worker)`,
    `Identity provider  ${stack.identity.issuer}`,
    `Model servers      ${servers.map((server) => server.url).join(', ')}`,
    `Redis              ${stack.redisUrl.replace(/\/\/[^@/]*@/, '//')}`,
    `Data               ${relative('', stack.directory)}/`,
    ...['', `A sign-in token for the account "${demoAccount}" (another: npm run --silent token -- bob):`, '', token],
    ...['', 'With the key, in another terminal:', ''],
    ...(chat === undefined ? [] : [`curl -s ${url}/v1/chat/completions ${headers} \\\n  -d '${chatBody}'`]),
    ...(embed === undefined
      ? []
      : [`curl -s ${url}/openai/v1/embeddings ${headers} \\\n  -d '{"model":"${embed}","input":"Hello"}'`]),
    '',
  ];
}

function modelsShown(served: Served): string {
  const models = Object.entries(served).map(([name, { endpoints = [] }]) => `${name} (${endpoints.join(', ')})`);
  const aliases = Object.entries(startedAliases).filter(([, model]) => model in served);
  return [...models, ...aliases.map(([alias, model]) => `${alias} (${model})`)].join('\n                   ');
}

const openers: Partial<Record<NodeJS.Platform, readonly string[]>> = {
  darwin: ['open'],
  win32: ['cmd', '/c', 'start', ''],
};
/** Some openers end with the browser. */
const openWithinMs = 3_000;

/** Opens an address in the browser of this machine. Returns a sentence if that fails. `env`: where its program is looked for. */
export async function openBrowser(url: string, env = process.env): Promise<string | undefined> {
  const [program = '', ...args] = openers[process.platform] ?? ['xdg-open'];
  const child = spawn(program, [...args, url], { env, stdio: 'ignore', detached: true });
  const over = new AbortController();
  const late = sleep(openWithinMs, undefined, { signal: over.signal }).catch(() => undefined);
  const failed = once(child, 'exit').then(
    ([code]) => (code === 0 ? undefined : `it ended with ${code}`),
    (error: NodeJS.ErrnoException) => (error.code === 'ENOENT' ? 'there is none here' : error.message),
  );
  const reason = await Promise.race([failed, late]);
  over.abort();
  child.unref();
  return reason === undefined
    ? undefined
    : `No browser was opened: ${program} failed (${reason}). Open ${url} yourself.`;
}
