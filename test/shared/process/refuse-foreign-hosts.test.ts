import test from 'ava';
import type Koa from 'koa';
import { refuseForeignHosts } from '../../../shared/process/refuse-foreign-hosts.ts';

function passes(hostHeader: string, { host = '127.0.0.1', hostsAllowed = [] as string[] } = {}): boolean {
  const ctx = { get: (name: string) => (name === 'host' ? hostHeader : '') } as unknown as Koa.Context; // the only fields that are read
  try {
    return refuseForeignHosts({ host, hostsAllowed })(ctx, async () => {}) !== undefined;
  } catch (error) {
    if ((error as { code?: unknown }).code === 'FORBIDDEN') return false;
    throw error;
  }
}

const hostile = [
  'hostile.example',
  'hostile.example:8081',
  '127.0.0.1.hostile.example',
  'localhost.hostile.example',
  'hostile.example#127.0.0.1',
  'localhost@hostile.example',
  '[::1].hostile.example',
  '[hostile.example]',
  'localhost:8081:1',
  'worker',
  '1.2.3',
];

test('a listener on loopback accepts names and addresses of loopback only', (t) => {
  for (const host of ['127.0.0.1', '::1', 'localhost', '127.1.2.3']) {
    for (const own of ['localhost', 'LOCALHOST:8081', 'localhost.', '127.0.0.1:8081', '[::1]', '[::1]:8081', '']) {
      t.true(passes(own, { host }), `${own} on ${host}`);
    }
    for (const foreign of [...hostile, '10.1.2.3:8081', '[fd00::1]:8081']) {
      t.false(passes(foreign, { host }), `${foreign} on ${host}`);
    }
  }
});

test('any other listener accepts every IP address, which no page can be rebound to, localhost and its own name', (t) => {
  for (const host of ['0.0.0.0', '::', '10.1.2.3', 'ops.internal']) {
    for (const own of ['10.1.2.3:8081', '[fd00::1]:8081', '127.0.0.1', 'localhost:8081', '']) {
      t.true(passes(own, { host }), `${own} on ${host}`);
    }
    for (const foreign of hostile) t.false(passes(foreign, { host }), `${foreign} on ${host}`);
    t.is(passes('ops.internal:8081', { host }), host === 'ops.internal');
  }
});

test('further names and addresses are allowed by their setting, as complete names and in any letter case', (t) => {
  const hostsAllowed = ['worker', 'Ingress.prod.svc', '10.1.2.3'];
  for (const own of ['worker:8082', 'ingress.PROD.svc', 'ingress.prod.svc.:8081', '10.1.2.3:8081']) {
    t.true(passes(own, { hostsAllowed }), own);
  }
  for (const foreign of ['a.worker', 'prod.svc', '10.1.2.4', ...hostile.filter((name) => name !== 'worker')]) {
    t.false(passes(foreign, { hostsAllowed }), foreign);
  }
});
