import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { startStack } from '../stack/stack.ts';
import { unlimitedKey } from '../support/load.ts';
import { type Load, measureLoad, measureOneClient, median, type Target } from './measure.ts';

type Pair = { bare: Load; ours: Load };
type Length = { rounds: number; seconds: number };

/** This service and a bare Koa proxy in front of the same model server of 0 ms, in turns; one client, then many. */
export async function compareWithBareProxy({ rounds, seconds }: Length): Promise<void> {
  await using stack = await startStack({ modelServers: { splitBytes: false } });
  using proxy = await startBareProxy(stack.modelServers[0].url);
  const body = JSON.stringify({ model: 'small-chat', messages: [{ role: 'user', content: 'Hello' }] });
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${await unlimitedKey(stack, 'bench')}` };
  const path = '/v1/chat/completions';
  const bare = { url: `http://127.0.0.1:${proxy.port}${path}`, headers, body };
  const ours = { url: `${stack.ingresses[0]?.url}${path}`, headers, body };

  for (const { name, measure } of rowsFor(seconds)) {
    console.error(`${name}: warming up …`);
    await measure(bare);
    await measure(ours);
    const pairs: Pair[] = [];
    for (let round = 1; round <= rounds; round++) {
      pairs.push({ bare: await measure(bare), ours: await measure(ours) });
      console.error(`${name}: round ${round} of ${rounds}`);
    }
    report(name, pairs, seconds);
  }
}

function rowsFor(seconds: number) {
  return [
    { name: '1 client', measure: (target: Target) => measureOneClient(target, { seconds }) },
    { name: '64 clients', measure: (target: Target) => measureLoad(target, { clients: 64, seconds }) },
  ];
}

/** Medians over the rounds; a ratio is taken within each round first, because the machine's speed drifts between them. */
function report(name: string, pairs: readonly Pair[], seconds: number): void {
  const medianOf = (side: 'bare' | 'ours', figure: keyof Load) => median(pairs.map((pair) => pair[side][figure]));
  const ratioOf = (figure: keyof Load) => median(pairs.map((pair) => pair.ours[figure] / pair.bare[figure]));
  const line = (label: string, figure: keyof Load, digits: number) => ({
    [label]: {
      'bare Koa proxy': medianOf('bare', figure).toFixed(digits),
      'this service': medianOf('ours', figure).toFixed(digits),
      ratio: ratioOf(figure).toFixed(3),
    },
  });
  const failedOf = (side: 'bare' | 'ours') => String(pairs.reduce((sum, pair) => sum + pair[side].failed, 0));
  const failed = { failed: { 'bare Koa proxy': failedOf('bare'), 'this service': failedOf('ours') } };
  console.log(`\n${name}, whole answers, medians of ${pairs.length} rounds of ${seconds} s`);
  console.table({
    ...line('requests/s', 'requestsPerSecond', 0),
    ...line('p50, ms', 'p50Ms', 2),
    ...line('p99, ms', 'p99Ms', 2),
    ...failed,
  });
}

async function startBareProxy(backendUrl: string): Promise<Disposable & { port: number }> {
  const file = fileURLToPath(new URL('./bare-proxy.ts', import.meta.url));
  const child: ChildProcess = fork(file, [backendUrl]);
  const [message] = (await once(child, 'message')) as [{ port: number }]; // the one message that the proxy sends
  return { port: message.port, [Symbol.dispose]: () => child.kill() };
}
