import { setTimeout as sleep } from 'node:timers/promises';
import { type ClusterNode, lookUntil, viewOf } from './cluster-nodes.ts';

export type SlotMove = {
  slot: number;
  from: ClusterNode;
  to: ClusterNode;
  /** After each key: while a slot has keys on both nodes, scripts that use several of them are refused. */
  pauseMs?: number;
};

const keysAtOnce = 100;
const migrateWithinMs = 5_000;

/**
 * Moves a slot as `redis-cli --cluster reshard` does, key by key. Resolves when every node knows its new holder, with the number of moved
 * keys. New keys are created at the new holder from the first moment on.
 */
export async function moveSlot({ slot, from, to, pauseMs = 0 }: SlotMove, nodes: readonly ClusterNode[]) {
  await to.redis.cluster('SETSLOT', slot, 'IMPORTING', from.id);
  await from.redis.cluster('SETSLOT', slot, 'MIGRATING', to.id);
  let moved = 0;
  for (let keys = await keysIn(from, slot); keys.length > 0; keys = await keysIn(from, slot)) {
    for (const key of keys) {
      await from.redis.migrate('127.0.0.1', to.port, '', 0, migrateWithinMs, 'KEYS', key);
      moved += 1;
      await sleep(pauseMs);
    }
  }
  // The new holder first: if the old one were first, and nothing followed, no node would hold the slot.
  await to.redis.cluster('SETSLOT', slot, 'NODE', to.id);
  await from.redis.cluster('SETSLOT', slot, 'NODE', to.id);
  await lookUntil(`all nodes know who holds slot ${slot}`, async () => {
    const views = await Promise.all(nodes.map(viewOf));
    return views.every(({ known }) => known.some(({ id, ranges }) => id === to.id && ranges.some(has(slot))));
  });
  return moved;
}

async function keysIn({ redis }: ClusterNode, slot: number): Promise<string[]> {
  return redis.cluster('GETKEYSINSLOT', slot, keysAtOnce);
}

const has =
  (slot: number) =>
  ({ from, to }: { from: number; to: number }) =>
    from <= slot && slot <= to;
