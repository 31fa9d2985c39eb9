import { EventEmitter } from 'node:events';
import test from 'ava';
import { watchMongoChecks } from '../../../../shared/store/mongo/mongo-calls.ts';

function createWatch() {
  const client = new EventEmitter();
  const clock = { ms: 0 };
  const checks = watchMongoChecks(client as unknown as Parameters<typeof watchMongoChecks>[0], () => clock.ms);
  const begin = (awaited: boolean) => client.emit('serverHeartbeatStarted', { connectionId: 'mongo:27017', awaited });
  return { client, clock, checks, begin };
}

for (const { awaited, msMax } of [
  { awaited: false, msMax: 6_000 },
  { awaited: true, msMax: 15_000 },
]) {
  test(`a check that ${awaited ? 'waits for news' : 'is answered at once'} is stuck after ${msMax} ms`, (t) => {
    const { clock, checks, begin } = createWatch();
    begin(awaited);
    clock.ms = msMax;
    t.false(checks.areStuck());
    clock.ms = msMax + 1;
    t.true(checks.areStuck());
    checks.forget();
    t.false(checks.areStuck());
  });
}

for (const [event, fields] of [
  ['serverHeartbeatSucceeded', { connectionId: 'mongo:27017' }],
  ['serverHeartbeatFailed', { connectionId: 'mongo:27017' }],
  ['serverClosed', { address: 'mongo:27017' }],
] as const) {
  test(`a check that ended with ${event} is never stuck, but one of another server is`, (t) => {
    const { client, clock, checks, begin } = createWatch();
    begin(false);
    client.emit(event, fields);
    clock.ms = 60_000;
    t.false(checks.areStuck());
    begin(false);
    client.emit(event, { connectionId: 'another:27017', address: 'another:27017' });
    clock.ms = 120_000;
    t.true(checks.areStuck());
  });
}
