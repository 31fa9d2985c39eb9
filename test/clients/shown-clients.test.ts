import { readFileSync } from 'node:fs';
import test from 'ava';
import { examplesOf } from '../support/documentation/page-examples.ts';
import { packages as pythonPackages } from '../support/documentation/run-examples.ts';
import { claudeCode, codex } from './provide-client.ts';
import { blocksOf, packagesOf, page, rows } from './shown-clients.ts';

const { devDependencies } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));

test('each client of the page names the version that its blocks run with, or says that it was not run', (t) => {
  t.true(rows.length > 25);
  const blocks = blocksOf(page);
  for (const name of blocks.keys()) t.true(packagesOf(name)[name] !== undefined, name);
  const ranBySlowTests = { ...devDependencies, ...pythonPackages };
  for (const { client, packages, isRun } of rows) {
    const names = Object.keys(packages);
    t.is(names.length > 0, isRun, client);
    if (!isRun || names.some((name) => blocks.has(name))) continue;
    const [[name, version] = []] = Object.entries(packages);
    t.true(
      [devDependencies[name ?? ''], pythonPackages[name as keyof typeof pythonPackages]].includes(version),
      client,
    );
    t.true(name !== undefined && name in ranBySlowTests, client);
  }
  for (const { name, version } of [codex, claudeCode]) t.is(packagesOf(name)[name], version);
});

test('what was not run says so: a client beside its block, and the settings of one line', (t) => {
  const unrun = rows.filter(({ isRun }) => !isRun).map(({ client }) => client);
  t.deepEqual(
    examplesOf(page).flatMap(({ role, under }) => (role === 'unrun' ? [under] : [])),
    unrun,
  );
  for (const [line] of page.matchAll(/^For the messages API.*/gm))
    t.regex(line, /^For the messages API \(not run\): `/);
  for (const client of unrun) t.regex(page, new RegExp(`^##+ ${client.replaceAll('.', '\\.')}\n\nNot run\\.`, 'm'));
});
