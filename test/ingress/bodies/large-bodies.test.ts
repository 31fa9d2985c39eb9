import { EventEmitter } from 'node:events';
import test from 'ava';
import { createLargeBodies } from '../../../ingress/bodies/large-bodies.ts';
import { fakeClock } from '../../support/fake-clock.ts';

/** Two bodies of 1,000 bytes at once, and of one sender 1,000 bytes a second. */
function start() {
  const clock = fakeClock();
  const large = createLargeBodies({ bytesAtOnceMax: 2_000, bytesPerSecond: 1_000, clock });
  const begun: string[] = [];
  const leaving = new Map<string, () => void>();

  async function come(name: string, bytes = 1_000): Promise<void> {
    const [sender = ''] = name.split(' ');
    const client = Object.assign(new EventEmitter(), { destroyed: false });
    clients.set(name, client);
    leaving.set(name, await large.enter(sender, bytes, client));
    begun.push(`${name} ${clock.now()}`);
  }
  const clients = new Map<string, EventEmitter & { destroyed: boolean }>();

  function disconnect(name: string): void {
    const client = clients.get(name);
    if (client === undefined) return;
    client.destroyed = true;
    client.emit('close');
  }
  return { clock, begun, come, disconnect, clients, leave: (name: string) => leaving.get(name)?.() };
}

test('bodies begin in the order in which they came, as many as fit at once, and one of any size alone', async (t) => {
  const { clock, begun, come, leave } = start();
  for (const name of ['ann', 'ben', 'cas', 'dee']) void come(name);
  void come('eve', 5_000);
  void come('fay');
  await clock.advance(0);
  t.deepEqual(begun, ['ann 0', 'ben 0']);
  leave('ben');
  leave('ben');
  await clock.advance(0);
  t.deepEqual(begun.slice(2), ['cas 0'], 'leaving twice makes room once');
  leave('ann');
  leave('cas');
  await clock.advance(0);
  t.deepEqual(begun.slice(3), ['dee 0'], 'a larger one waits, and the next behind it');
  leave('dee');
  await clock.advance(0);
  t.deepEqual(begun.slice(4), ['eve 0']);
  leave('eve');
  await clock.advance(0);
  t.deepEqual(begun.slice(5), ['fay 0']);
});

test('the next body of a sender waits in proportion to the bytes of the last, and others do not wait for it', async (t) => {
  const { clock, begun, come, leave } = start();
  void come('ann 1', 500);
  void come('ann 2', 2_000);
  void come('ann 3');
  void come('ben');
  await clock.advance(0);
  t.deepEqual(begun, ['ann 1 0', 'ben 0']);
  leave('ann 1');
  leave('ben');
  await clock.advance(499);
  t.is(begun.length, 2);
  await clock.advance(1);
  t.deepEqual(begun.slice(2), ['ann 2 500']);
  leave('ann 2');
  await clock.advance(1_999);
  t.is(begun.length, 3);
  await clock.advance(1);
  t.deepEqual(begun.slice(3), ['ann 3 2500']);
});

test('a body whose client disconnects no longer waits, and takes nothing', async (t) => {
  const { clock, begun, come, disconnect, clients, leave } = start();
  void come('ann 1');
  void come('ann 2');
  void come('ann 3');
  await clock.advance(0);
  leave('ann 1');
  disconnect('ann 2');
  await clock.advance(0);
  t.deepEqual(begun, ['ann 1 0', 'ann 2 0']);
  leave('ann 2');
  await clock.advance(1_000);
  t.deepEqual(begun.slice(2), ['ann 3 1000'], 'as if the second had not come');
  for (const client of clients.values()) t.is(client.listenerCount('close'), 0);
});
