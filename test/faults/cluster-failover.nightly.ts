import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { openClusterLoad } from '../support/faults/cluster-load.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { judgeAll, judgeOthers } from '../support/faults/judge-cluster.ts';

faultTest(
  test,
  {
    id: '27a',
    done: 'a master of a Redis Cluster is killed under load, and its replica takes over',
    promised:
      'requests on other nodes are answered; no 503 takes longer than 5 s; all are answered again within 10 s; nothing is lost or counted twice',
  },
  async (t, see) => {
    t.timeout(240_000);
    const load = await openClusterLoad(t, { replicasEach: 1 });
    await sleep(8_000);
    const node = await load.withoutStream();
    const from = performance.now();
    await node.kill('SIGKILL');
    await load.cluster.untilWhole();
    const fault = { from, to: performance.now(), node };
    see(`the replica was master after ${((fault.to - from) / 1_000).toFixed(1)} s`);
    await sleep(8_000);
    await load.stop();
    judgeOthers(t, see, load.timed, fault);
    await judgeAll(t, see, { ...load, fault });
  },
);
