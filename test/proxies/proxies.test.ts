import { readdirSync, readFileSync } from 'node:fs';
import test from 'ava';
import { settingDefaults } from '../../shared/process/settings.ts';

const read = (path: string) => readFileSync(new URL(`../../ingress/${path}`, import.meta.url), 'utf8');
const page = read('documentation/behind-a-proxy.md');
const folder = new URL('../../ingress/deployment/proxies/', import.meta.url);

test('the page shows each file of the proxies as it is', (t) => {
  const shown = [...page.matchAll(/^```\S+ proxy (\S+)\n(.*?)^```$/gms)].map(([, name, text]) => [name, text]);
  t.deepEqual(
    Object.fromEntries(shown),
    Object.fromEntries(readdirSync(folder).map((name) => [name, read(`deployment/proxies/${name}`)])),
  );
});

test('times of the files and the page fit the defaults of an ingress', (t) => {
  const [keepAliveMs, delayMs] = ['KEEP_ALIVE_MS', 'SHUTDOWN_DELAY_MS'].map((name) =>
    Number(settingDefaults.ingress.get(name)),
  );
  t.true(page.includes(`KEEP_ALIVE_MS\` (${Number(keepAliveMs) / 1_000} s)`));
  t.true(page.includes(`SHUTDOWN_DELAY_MS\` (${Number(delayMs) / 1_000} s)`));
  const unused = [
    /keepalive_timeout (\d+)s;/,
    /pool-purge-delay (\d+)s/,
    /^\t+keepalive (\d+)s/m,
    /idle_timeout: (\d+)s }/,
    /idleConnTimeout: (\d+)s/,
  ];
  for (const pattern of unused)
    t.true(Number(pattern.exec(page)?.[1]) * 1_000 < Math.min(Number(keepAliveMs), Number(delayMs)), String(pattern));
});
