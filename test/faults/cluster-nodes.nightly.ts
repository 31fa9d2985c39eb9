import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import { countersKey, queuePrefix } from '../../shared/redis/keys.ts';
import { type ClusterLoad, openClusterLoad } from '../support/faults/cluster-load.ts';
import { faultTest, type See } from '../support/faults/fault-test.ts';
import { type Disturbance, judgeAll, judgeOthers } from '../support/faults/judge-cluster.ts';

type Act = (load: ClusterLoad, see: See) => Promise<Disturbance>;

/** A fault under load; `act` is what is done, and returns when and to which node. */
function underLoad(act: Act, { replicasEach = 0 } = {}) {
  return async (t: ExecutionContext, see: See): Promise<void> => {
    t.timeout(240_000);
    const load = await openClusterLoad(t, { replicasEach });
    await sleep(8_000);
    const fault = await act(load, see);
    await sleep(8_000);
    await load.stop();
    judgeOthers(t, see, load.timed, fault);
    await judgeAll(t, see, { ...load, fault });
  };
}

faultTest(
  test.serial,
  {
    id: '27b',
    done: 'a master of a Redis Cluster without a replica is killed under load, and returns after 8 s',
    promised:
      'requests on other nodes are answered; the others are 503 within 5 s; all are answered again within 10 s; nothing is lost or counted twice',
  },
  underLoad(async ({ cluster, withoutStream, kill }) => {
    const node = await withoutStream();
    const from = performance.now();
    await kill(node);
    await sleep(8_000);
    await node.restart();
    await cluster.untilWhole();
    return { from, to: performance.now(), node };
  }),
);

faultTest(
  test.serial,
  {
    id: '27c',
    done: 'a master of a Redis Cluster hands over to its replica under load (CLUSTER FAILOVER)',
    promised:
      'requests on other nodes are answered; no 503 takes longer than 5 s; all are answered again within 10 s; nothing is lost or counted twice',
  },
  underLoad(
    async ({ cluster, withoutStream }) => {
      const node = await withoutStream();
      const from = performance.now();
      await cluster.failOver(node);
      await sleep(3_000); // the effects, which may come later than the change
      return { from, to: performance.now(), node };
    },
    { replicasEach: 1 },
  ),
);

faultTest(
  test.serial,
  {
    id: '27d',
    done: 'under load, the slot of an account and that of a queue move to another node, slowly',
    promised:
      'requests that do not need these slots are answered; no 503 takes longer than 5 s; all are answered again within 10 s; nothing is lost or counted twice',
  },
  underLoad(async ({ cluster, account, model }, see) => {
    const [node, to] = await cluster.masters();
    if (node === undefined || to === undefined) throw new Error('there are three masters');
    const from = performance.now();
    for (const key of [countersKey(`user:${account(node)}`), queuePrefix(model(node))]) {
      const moved = await cluster.moveSlot({ slot: await cluster.slotOf(key), to, pauseMs: 100 });
      see(`a slot with ${moved} keys moved`);
    }
    return { from, to: performance.now(), node };
  }),
);

faultTest(
  test.serial,
  {
    id: '27e',
    done: 'a node is added to a Redis Cluster under load, slots move to it and back, and it is removed',
    promised:
      'requests that do not need these slots are answered; no 503 takes longer than 5 s; all are answered again within 10 s; nothing is lost or counted twice',
  },
  underLoad(async ({ cluster, account, model }) => {
    const [node] = await cluster.masters();
    if (node === undefined) throw new Error('there are three masters');
    const keys = [countersKey(`user:${account(node)}`), queuePrefix(model(node))];
    const slots = await Promise.all(keys.map((key) => cluster.slotOf(key)));
    const from = performance.now();
    const added = await cluster.addNode();
    for (const slot of slots) await cluster.moveSlot({ slot, to: added });
    await sleep(2_000);
    for (const slot of slots) await cluster.moveSlot({ slot, to: node });
    await cluster.removeNode(added);
    return { from, to: performance.now(), node };
  }),
);

faultTest(
  test.serial,
  {
    id: '27f',
    done: 'the node with the reply stream of an ingress is killed under load, has no replica, and returns after 9 s',
    promised:
      'the ingress opens a stream on another node: no request waits longer than 5 s for its 503, and from 6 s on requests on other nodes are answered; nothing is lost or counted twice',
  },
  async (t, see) => {
    t.timeout(240_000);
    const load = await openClusterLoad(t, { replicasEach: 0 });
    await sleep(8_000);
    const free = await load.withoutStream();
    const masters = await load.cluster.masters();
    const streams = await Promise.all(masters.map(({ redis }) => redis.keys('svc:reply-frames:*')));
    const node = masters.find((each, index) => each !== free && (streams[index]?.length ?? 0) > 0);
    if (node === undefined) return t.fail('an ingress has a stream');
    const from = performance.now();
    await load.kill(node);
    await sleep(9_000);
    const others = load.timed.filter(({ nodes }) => !nodes.includes(node));
    const late = others.filter(({ beganAt }) => beganAt > from + 6_000);
    see(`requests on other nodes after 6 s: ${late.length}`);
    t.true(late.length > 20 && late.every(({ asked }) => asked.ending === 'answered'));
    await node.restart();
    await load.cluster.untilWhole();
    const to = performance.now();
    await sleep(8_000);
    await load.stop();
    await judgeAll(t, see, { ...load, fault: { from, to } });
  },
);
