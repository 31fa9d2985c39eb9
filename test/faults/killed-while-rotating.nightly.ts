import test, { type ExecutionContext } from 'ava';
import { type RunningIngress, startStack } from '../stack/stack.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';
import { sized } from '../support/size.ts';

/** Each interrupts one rotation of each account. More are killed if none interrupted a committed one. */
const killsMin = sized(10);
const killsMax = 3 * killsMin;
const accounts = ['ann', 'bob', 'carl', 'dora'];
/** Several times the duration of a rotation. */
const killWithinMs = 60;

test('rotations whose ingress is killed at any moment: one active key each time, and it can be rotated again', async (t) => {
  await using stack = await startStack({ workers: 0 });
  const bystander = createKeyClient(stack);
  const keys = new Map(await Promise.all(accounts.map(async (name) => [name, await bystander.newKey(name)] as const)));
  const lost = { made: 0, notMade: 0 };

  let next = stack.startIngress();
  const isEnough = (kills: number) => kills >= killsMax || (kills >= killsMin && lost.made > 0);
  for (let kills = 0; !isEnough(kills); kills++) {
    const victim = await next;
    next = stack.startIngress();
    await rotateUntilKilled(createKeyClient(stack, { url: () => victim.url }), victim, keys);
    for (const [account, lastHeard] of keys) {
      const lives = await provesOneActive(t, bystander, account, lastHeard);
      lost[lives ? 'notMade' : 'made']++;
      const [active] = await bystander.list(account);
      const again = await bystander.rotate(account, active?.key ?? '');
      t.is(again.status, 200, 'a rotation without a response is repeated with the masked form');
      keys.set(account, String(again.body.key));
    }
  }
  t.log('rotations without a response:', lost);
  t.true(lost.made > 0, 'the response to a committed rotation was lost');
  t.true(lost.made + lost.notMade >= killsMin * accounts.length);
  await next;
});

/** Rotates each account's key repeatedly until the ingress is killed. `keys` are the last ones received. */
async function rotateUntilKilled(client: KeyClient, { process }: RunningIngress, keys: Map<string, string>) {
  const inFullSwing = Promise.withResolvers<void>();
  const swinging = new Set<string>();
  const rotating = [...keys.keys()].map(async (account) => {
    for (;;) {
      const answer = await client.rotate(account, keys.get(account) ?? '').catch(() => undefined);
      if (answer === undefined) return;
      if (answer.status !== 200) throw new Error(`a rotation was refused: ${JSON.stringify(answer.body)}`);
      keys.set(account, String(answer.body.key));
      if (swinging.add(account).size === keys.size) inFullSwing.resolve();
    }
  });
  await Promise.race([inFullSwing.promise, Promise.all(rotating)]);
  await new Promise((resolve) => setTimeout(resolve, Math.random() * killWithinMs));
  process.kill('SIGKILL');
  await process.exited;
  await Promise.all(rotating);
}

/** Returns whether the active key is the one that was last received. */
async function provesOneActive(t: ExecutionContext, bystander: KeyClient, account: string, lastHeard: string) {
  const listed = await bystander.list(account);
  t.deepEqual(
    listed.map(({ state }) => state),
    listed.map((_key, index) => (index === 0 ? 'active' : 'rotated')),
  );
  const lives = (await bystander.models(lastHeard)).status === 200;
  t.is(listed[0]?.key.slice(0, 10) === lastHeard.slice(0, 10), lives, 'the list shows which key is active');
  return lives;
}
