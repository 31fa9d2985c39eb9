import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { Agent } from 'undici';
import { startStack } from '../stack/stack.ts';
import { awaitMetric } from '../support/await-metric.ts';
import { askMeanwhile, inWords } from '../support/faults/ask-meanwhile.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { type AskedRequest, ask } from '../support/truth/ask.ts';
import { openWitnesses } from '../support/truth/open-witnesses.ts';
import { watchMemory } from '../support/watch-memory.ts';

const mebibyte = 1_048_576;
const waitingMax = 10_000;
const waveSize = 200;
const depth = 'svc_queue_depth\\{pool="default",model="small-chat",lane="interactive"\\}';
/** 28 KiB each were measured in a bare process. As much again is allowed for the queue and the caller. */
const growthMax = 900 * mebibyte;
const connectionsWanted = 20_000;
/** The default per address is lower. */
const connectionsMax = String(2 * connectionsWanted);
const bounds = { CONNECTIONS_MAX: connectionsMax, CONNECTIONS_PER_ADDRESS_MAX: connectionsMax };
/** Other files that each process has open. */
const othersOpen = 300;

faultTest(
  test.serial,
  {
    id: '21e',
    done: '10,000 requests wait at one ingress, and then workers start',
    promised: 'memory is bounded, and each gets its own answer, once',
  },
  async (t, see) => {
    t.timeout(1_200_000);
    await using stack = await startStack({
      workers: 0,
      timeouts: { queue_ms: 1_200_000, request_ms: 1_200_000 },
      // Past half of it, an account could have only a quarter.
      env: { ...bounds, QUEUE_DEPTH_MAX: String(4 * waitingMax) },
      modelServers: { firstTokenMs: 5, tokensPerSecond: 10_000 },
    });
    await using witnesses = await openWitnesses(stack);
    const [ingress] = stack.ingresses;
    if (ingress === undefined) throw new Error('there is no ingress');
    using watching = watchMemory([ingress]);
    const agent = new Agent({ connections: waitingMax, headersTimeout: 0, bodyTimeout: 0 });
    t.teardown(() => agent.destroy());
    const beganAt = performance.now();
    // A crowd that arrives in one moment gets 503 with Retry-After (23). This one arrives as fast as it is admitted.
    const comes = async (index: number): Promise<AskedRequest> => {
      const asked = await ask(witnesses.wish(`Waiting ${index}?`), agent);
      return asked.ending === 'refused' && asked.status === 503 ? comes(index) : asked;
    };
    const asking: Promise<AskedRequest>[] = [];
    while (asking.length < waitingMax) {
      for (let wave = 0; wave < waveSize; wave += 1) asking.push(comes(asking.length));
      await awaitMetric(ingress, new RegExp(`^${depth} ${asking.length}$`, 'm'));
    }
    see(`${waitingMax} waited after ${Math.round((performance.now() - beganAt) / 1_000)} s`);
    await Promise.all([stack.startWorker(), stack.startWorker()]);
    const asked = await Promise.all(asking);
    const [growth = 0] = await watching.stop();
    const answered = asked.filter(({ ending }) => ending === 'answered').length;
    t.is(answered, waitingMax);
    t.true(growth < growthMax, `${growth} bytes`);
    const { records } = await witnesses.agreeOn(t, asked);
    see(`${answered} answered; the ingress grew by ${Math.round(growth / mebibyte)} MiB; ${records.size} records`);
  },
);

faultTest(
  test.serial,
  {
    id: '21f',
    done: '20,000 connections are open at one ingress, or as many as a process may have here',
    promised: 'all of them stay open, memory is bounded, and other clients are answered meanwhile and afterwards',
  },
  async (t, see) => {
    t.timeout(300_000);
    await using stack = await startStack({ env: bounds });
    await using witnesses = await openWitnesses(stack);
    const port = Number(new URL(stack.ingresses[0]?.url ?? '').port);
    const wanted = Math.min(connectionsWanted, openFilesMax() - othersOpen);
    using watching = watchMemory(stack.ingresses);
    const sockets: Socket[] = [];
    const meanwhile = await askMeanwhile(witnesses, async () => {
      while (sockets.length < wanted) {
        const some = Array.from({ length: Math.min(200, wanted - sockets.length) }, () => connect(port, '127.0.0.1'));
        for (const socket of some) socket.on('error', () => {}); // a refused connection is not counted below
        await Promise.all(some.map((socket) => once(socket, 'connect').catch(() => {})));
        for (const socket of some) socket.write('GET /v1/models HTTP/1.1\r\nHost: x\r\n');
        sockets.push(...some);
      }
      await sleep(2_000);
    });
    const open = sockets.filter((socket) => !socket.destroyed).length;
    for (const socket of sockets) socket.destroy();
    const [growth = 0] = await watching.stop();
    see(
      `${wanted} were opened, ${open} of them still open at the end; the ingress grew by ${Math.round(growth / mebibyte)} MiB`,
    );
    see(inWords(meanwhile));
    t.is(open, wanted);
    t.true(
      meanwhile.asked.every(({ ending }) => ending === 'answered'),
      'other clients do not wait for the crowd',
    );
    t.true(growth < growthMax);
    const after = await askMeanwhile(witnesses, async () => {});
    t.true(after.asked.every(({ ending }) => ending === 'answered'));
    await witnesses.agreeOn(t, [...meanwhile.asked, ...after.asked]);
  },
);

/** The limit of this process and of its child processes. */
function openFilesMax(): number {
  const { userLimits } = process.report.getReport() as { userLimits: { open_files: { soft: number | string } } }; // documented by Node
  const { soft } = userLimits.open_files;
  return typeof soft === 'number' ? soft : Number.POSITIVE_INFINITY;
}
