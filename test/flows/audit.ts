import type { TestFn } from 'ava';
import { type AuditRecord, auditRecordListSchema } from '../../ingress/routes/audit.ts';
import { createSqliteHome } from '../shared/store/sqlite-home.ts';
import { type RunningIngress, type Stack, startStack } from '../stack/stack.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';
import { createMongoHome } from '../support/mongodb/mongo-home.ts';
import type { MongoServer } from '../support/mongodb/start-mongo.ts';
import { readCsv } from '../support/report-side.ts';

type Registrar = {
  test: TestFn;
  /** The database server of the store, stopped after the service. Omit it to use the embedded store. */
  mongo?: MongoServer;
};

type Body = Record<string, unknown>;

/** Tests of the audit trail over HTTP, on either store. */
export function testAudit({ test, mongo }: Registrar): void {
  const parts = new AsyncDisposableStack();
  let stack: Stack;
  let ingress: RunningIngress;
  let keys: KeyClient;

  test.before(async () => {
    if (mongo !== undefined) parts.use(mongo);
    const home = parts.use(await (mongo === undefined ? createSqliteHome() : createMongoHome(mongo)));
    stack = parts.use(await startStack({ databaseUrl: home.url, env: { TRUST_PROXY: '2' } }));
    const [first] = stack.ingresses;
    if (first === undefined) throw new Error('the stack has an ingress');
    ingress = first;
    keys = createKeyClient(stack);
  });
  test.after.always(() => parts.disposeAsync());

  const list = async (query = '') =>
    auditRecordListSchema.parse(
      (await keys.send('GET', `/admin/audit${query}`, { bearer: await keys.token('olga', true) })).body,
    );
  const change = async (account: string, body: Body, address = '198.51.100.1') =>
    keys.send('PATCH', `/admin/accounts/${encodeURIComponent(account)}`, {
      bearer: await keys.token('olga', true),
      body,
      headers: { 'x-forwarded-for': `203.0.113.66, ${address}, 10.0.0.1` },
    });

  test.serial('a change is listed with who made it, from where, and why, and is logged as one line', async (t) => {
    const { status, headers } = await change('user:ann', { plan: 'pro', reason: 'Signed the contract.' });
    t.is(status, 200);
    const { data } = await list('?account=user:ann');
    t.like(data, {
      length: 1,
      0: {
        actor: 'user:olga',
        address: '198.51.100.1',
        account: 'user:ann',
        change: { plan: { from: 'free', to: 'pro' } },
        reason: 'Signed the contract.',
      },
    });
    const requestId = headers.get('x-request-id');
    await ingress.process.line((line) => line.msg === 'answered' && line.requestId === requestId);
    const lines = ingress.process.logs.filter((line) => line.requestId === requestId);
    t.like(lines, {
      length: 2,
      0: { level: 'info', msg: 'an account was changed', audit: data[0] },
      1: { address: '198.51.100.1', account: 'user:olga', status: '200' },
    });
  });

  test.serial('a change without effect leaves no record, and neither does a refusal', async (t) => {
    const before = await list();
    t.is((await change('user:ann', { plan: 'pro', suspended: false, reason: 'again' })).status, 200);
    t.is((await change('user:ann', { reason: 'why' })).status, 400);
    t.is((await change('user:ann', { plan: 'gold', reason: 'why' })).status, 400);
    t.is((await change('device:none', { suspended: true, reason: 'why' })).status, 404);
    t.deepEqual(await list(), before);
  });

  test.serial('pages show each record once, even if accounts change meanwhile', async (t) => {
    for (let number = 1; number <= 6; number++) {
      await change('user:pages', { topUp: { id: `top-up-${number}`, tokens: number } });
    }
    const tokens: unknown[] = [];
    let page = await list('?account=user:pages&actor=user:olga&limit=2');
    for (let number = 7; ; number++) {
      t.deepEqual([page.data[0]?.id, page.data.at(-1)?.id], [page.first_id, page.last_id]);
      tokens.push(...page.data.map((record: AuditRecord) => record.change.topUp?.tokens));
      await change('user:pages', { topUp: { id: `top-up-${number}`, tokens: number } });
      if (!page.has_more) break;
      page = await list(`?account=user:pages&actor=user:olga&limit=2&after=${page.last_id}`);
    }
    t.deepEqual(tokens, [6, 5, 4, 3, 2, 1]);
    t.like(await list('?account=user:pages&limit=1'), { data: [{ change: { topUp: { tokens: 9 } } }], has_more: true });
  });

  const rowsOf = async (query: string) => {
    const bearer = await keys.token('olga', true);
    const headers = { authorization: `Bearer ${bearer}` };
    return readCsv(await (await fetch(`${ingress.url}/admin/audit?format=csv${query}`, { headers })).text());
  };

  test.serial('a file has all records that match, each as in the list', async (t) => {
    const { data } = await list('?account=user:pages&limit=100');
    const rows = await rowsOf('&account=user:pages');
    t.deepEqual(
      rows.map(({ change, ...row }) => ({ ...row, change: JSON.parse(change ?? '') })),
      data.map(({ id, at, kind, actor, address, account, change }) => ({
        ...{ id, at, kind, actor: actor ?? '', address: address ?? '', account: account ?? '', change, reason: '' },
      })),
    );
    const start = data[3]?.at ?? '';
    t.is((await rowsOf(`&account=user:pages&start=${start}`)).length, data.filter(({ at }) => at >= start).length);
  });

  test.serial('what a person does to keys is listed, and one plan file for all processes', async (t) => {
    await stack.startIngress({});
    const key = await keys.newKey('kim');
    await keys.rotate('kim', key);
    const { body } = await keys.signedIn('kim', 'POST', '/v1/keys/console', {});
    const { data } = await list('?account=user:kim&kind=key');
    t.like(data, {
      length: 3,
      0: { actor: 'user:kim', change: { keyMinted: body.id } },
      1: { change: { keyRotated: { from: data[2]?.change.keyMinted } } },
    });
    t.false(JSON.stringify(data).includes(key.slice(4, 30)));
    t.like(await list('?kind=plan_file'), {
      data: { length: 1, 0: { actor: null, change: { planFile: { from: null } } } },
    });
  });

  test.serial('an ingress that is killed while it creates and revokes codes loses no record of them', async (t) => {
    const { url, process } = await stack.startIngress({});
    const dying = createKeyClient(stack, { url: () => url });
    const bearer = await keys.token('olga', true);
    let revoked = 0;
    const working = (async () => {
      for (;;) {
        const { body } = await dying.send('POST', '/admin/top-up-codes', { bearer, body: { tokens: 5, count: 3 } });
        const [first] = body.data as { id: string }[];
        await dying.send('DELETE', `/admin/top-up-codes/${first?.id}`, { bearer });
        revoked++;
      }
    })().catch(() => 'lost');
    while (revoked < 5) await new Promise((resolve) => setImmediate(resolve));
    process.kill('SIGKILL');
    t.is(await working, 'lost');
    await process.exited;

    const { body } = await keys.send('GET', '/admin/top-up-codes?limit=100', { bearer });
    const codes = body.data as { id: string; state: string }[];
    const { data } = await list('?kind=code&limit=100');
    const created = data.flatMap(({ change }) => change.codesCreated ?? []);
    t.deepEqual(new Set(created.map(({ count, tokens }) => `${count} ${tokens}`)), new Set(['3 5']));
    t.true(created.every(({ id }) => codes.some((code) => code.id === id)));
    // The last creation may have been cut off, with its record.
    t.is(created.length, Math.ceil(codes.length / 3));
    t.deepEqual(
      data.flatMap(({ change }) => change.codeRevoked?.id ?? []).sort(),
      codes.flatMap(({ id, state }) => (state === 'revoked' ? [id] : [])).sort(),
    );
  });

  test.serial('an ingress that stops right after a change loses no record', async (t) => {
    const { url, process } = await stack.startIngress({});
    const dying = createKeyClient(stack, { url: () => url });
    const statuses: number[] = [];
    const changing = (async () => {
      for (let tokens = 1; tokens <= 1_000; tokens++) {
        const { status } = await dying.change('user:dying', { topUp: { id: `id-${tokens}`, tokens } });
        statuses.push(status);
      }
    })().catch(() => 'lost');
    while (statuses.length < 5) await new Promise((resolve) => setImmediate(resolve));
    process.kill('SIGKILL');
    t.is(await changing, 'lost');
    await process.exited;

    const { body } = await keys.account('user:dying');
    const { data } = await list('?account=user:dying&limit=100');
    const made = (body.changes as Body[]).map(({ topUp }) => topUp); // a response of the service itself
    t.deepEqual(
      data.map((record: AuditRecord) => record.change.topUp),
      made as (typeof data)[number]['change']['topUp'][],
    );
    t.true(data.length >= 5 && statuses.every((status) => status === 200));
    t.deepEqual(await list('?actor=user:operator&limit=100'), { ...(await list('?account=user:dying&limit=100')) });
  });
}
