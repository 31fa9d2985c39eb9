import test from 'ava';
import type { FleetView } from '../../ingress/routes/fleet.ts';
import { createKeyClient } from '../support/key-client.ts';
import { openSharedStack } from '../support/shared-stack.ts';

const { stack } = openSharedStack(test, { modelServers: { firstTokenMs: 20, tokensPerSecond: 200 } });

test('operators see what every process does, as the processes note it', async (t) => {
  const keys = createKeyClient(stack());
  const bearer = await keys.token('operator', true);
  t.is((await keys.infer(await keys.newKey('fleet-user'))).status, 200);
  const fleetOf = async () => (await keys.send('GET', '/admin/fleet', { bearer })).body as unknown as FleetView; // documented
  const answered = ({ backends }: FleetView) =>
    backends.flatMap(({ models }) => models).reduce((sum, each) => sum + each.answered, 0);
  let fleet = await fleetOf();
  while (answered(fleet) === 0) fleet = await fleetOf();
  t.true(fleet.ingresses.every(({ connections, waiting }) => connections !== null && waiting !== null));
  t.true(fleet.workers.every(({ running, waiting }) => running !== null && waiting !== null));
  const models = fleet.pools.flatMap(({ models }) => models.map(({ model }) => model));
  t.true(models.includes('small-chat'));
  const health = fleet.backends.flatMap(({ models }) => models).find((each) => each.answered > 0);
  t.like(health, { failed: 0, breakers: { closed: fleet.workers.length, open: 0 } });
});
