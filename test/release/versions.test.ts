import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import test from 'ava';
import { parse } from 'yaml';
import { z } from 'zod';
import { changelogPage, newestEntry, versionsOf } from './versions.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
const folder = '.github/workflows';
const workflows = readdirSync(new URL(`../../${folder}`, import.meta.url)).map((name) => ({
  name,
  text: read(`${folder}/${name}`),
}));

test('package, lock, OpenAPI document, chart, changelog and upgrading have one version', (t) => {
  const versions = versionsOf(root);
  t.is(versions.size, 8);
  t.is(new Set(versions.values()).size, 1, JSON.stringify([...versions]));
  t.regex([...versions.values()][0] ?? '', /^\d+\.\d+\.\d+$/);
});

test('the changelog is in the form of Keep a Changelog, newest first', (t) => {
  const page = read(changelogPage);
  const headings = page.match(/^#{2,3} .*$/gm) ?? [];
  const kinds = ['Added', 'Changed', 'Deprecated', 'Removed', 'Fixed', 'Security'].map((kind) => `### ${kind}`);
  const versions = headings.filter((heading) => heading.startsWith('## '));
  for (const heading of headings.filter((heading) => heading.startsWith('### ')))
    t.true(kinds.includes(heading), heading);
  for (const heading of versions) t.regex(heading, /^## \[\d+\.\d+\.\d+\] - (Unreleased|\d{4}-\d{2}-\d{2})$/);
  const numbers = versions.map((heading) => /\d+\.\d+\.\d+/.exec(heading)?.[0] ?? '');
  const byNumber = numbers.toSorted((one, other) => other.localeCompare(one, undefined, { numeric: true }));
  t.deepEqual(numbers, byNumber);
  t.deepEqual(newestEntry('# A\n\n## [2.0.0] - Unreleased\n\n## [1.9.9] - 2026-12-01\n'), {
    version: '2.0.0',
    date: 'Unreleased',
  });
  t.deepEqual(newestEntry('## 2.0.0\n'), { version: 'none', date: 'none' });
});

const stepSchema = z.object({
  uses: z.string().optional(),
  run: z.string().optional(),
  with: z.record(z.string(), z.unknown()).optional(),
});
const jobSchema = z.object({
  'timeout-minutes': z.number(),
  permissions: z.record(z.string(), z.string()).optional(),
  container: z.object({ image: z.string() }).optional(),
  steps: z.array(stepSchema),
});
const workflowSchema = z.object({
  on: z.record(z.string(), z.unknown()),
  permissions: z.record(z.string(), z.string()),
  jobs: z.record(z.string(), jobSchema),
});
const packageSchema = z.object({ scripts: z.record(z.string(), z.string()), engines: z.object({ node: z.string() }) });

test('workflows test each change, run the nightly tests and release tags', (t) => {
  const events = Object.fromEntries(
    workflows.map(({ name, text }) => [name, Object.keys(workflowSchema.parse(parse(text)).on)]),
  );
  t.deepEqual(events, {
    'nightly.yml': ['schedule', 'workflow_dispatch'],
    'release.yml': ['push'],
    'test.yml': ['push', 'pull_request'],
  });
  const runs = (name: string) => workflows.find((each) => each.name === name)?.text ?? '';
  t.regex(runs('test.yml'), /run: bash \.ci\/run\n/);
  t.regex(runs('nightly.yml'), /run: npm run nightly\n/);
  t.regex(
    runs('release.yml'),
    /tags: \["v\*"\]\n[\s\S]*run: bash \.ci\/run\n[\s\S]*run: npm run release -- --tag "\$GITHUB_REF_NAME"\n/,
  );
});

test('every action is pinned by its commit, with its version beside it, and the same one everywhere', (t) => {
  const used = workflows.flatMap(({ text }) =>
    [...text.matchAll(/^ +- uses: (.*)$/gm)].map(([, action = '']) => action),
  );
  t.true(used.length >= 8);
  for (const action of used) t.regex(action, /^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  const commits = Map.groupBy(new Set(used), (action) => action.split('@')[0]);
  for (const [action, pins] of commits) t.is(pins.length, 1, action);
  t.is(used.length, workflows.flatMap(({ text }) => text.match(/\buses:/g) ?? []).length, 'no other form');
});

test('a workflow may only read; only the job that signs may write, and it runs no code of this repository or its packages', (t) => {
  for (const { name, text } of workflows) {
    const { permissions, jobs } = workflowSchema.parse(parse(text));
    t.deepEqual(permissions, { contents: 'read' }, name);
    for (const [job, { permissions: own, steps }] of Object.entries(jobs)) {
      const code = steps.map((step) => `${step.uses ?? ''} ${step.run ?? ''}`).join('\n');
      if (own === undefined) {
        t.notRegex(code, /cosign|attest|gh release/);
        continue;
      }
      t.is(`${name} ${job}`, 'release.yml publish');
      t.deepEqual(own, { contents: 'write', 'id-token': 'write', attestations: 'write' });
      t.notRegex(code, /actions\/checkout|\bnpm\b|\bnode\b|\.ci\/run/);
      for (const needed of [/sha256sum --check/, /cosign sign-blob/, /gh release create/]) t.regex(code, needed);
      const attested = steps.filter(({ uses }) => uses?.startsWith('actions/attest@')).map((step) => step.with);
      t.deepEqual(attested, [
        { 'subject-checksums': 'release/SHA256SUMS' },
        { 'subject-path': 'release/*.tar.gz', 'sbom-path': 'release/sbom.cdx.json' },
      ]);
    }
  }
});

test('commands of workflows exist, have a time limit, the Node of the project, and take no text of a contributor', (t) => {
  const { scripts, engines } = packageSchema.parse(JSON.parse(read('package.json')));
  for (const { name, text } of workflows) {
    t.notRegex(text, /pull_request_target|workflow_run|github\.event|head_ref/, name);
    for (const job of Object.values(workflowSchema.parse(parse(text)).jobs)) {
      t.true(job['timeout-minutes'] <= 180);
      if (job.container !== undefined) t.is(job.container.image, `node:${engines.node}-bookworm`);
      for (const { uses, run = '', with: given } of job.steps) {
        t.notRegex(run, /\$\{\{/, 'an expression could be code');
        if (uses?.startsWith('actions/checkout@')) t.is(given?.['persist-credentials'], false);
        for (const [, script = ''] of run.matchAll(/\bnpm run ([\w:-]+)/g)) t.true(script in scripts, script);
        for (const [, file = ''] of run.matchAll(/\bbash (\S+)/g)) t.notThrows(() => read(file), file);
      }
    }
    t.regex(text, /^# Not run yet: see CONTRIBUTING\.md, Releases\.\n/, name);
  }
  const guide = read('.github/CONTRIBUTING.md');
  t.regex(guide, /\n## Releases\n[\s\S]*\*\*These workflows were not run yet\.\*\*/);
  for (const { name } of workflows) t.true(guide.includes(`\`${name}\``) || guide.includes(`/${name}\``), name);
});

const formSchema = z.object({
  name: z.string().min(1),
  description: z.string().min(1),
  body: z.array(
    z.object({
      type: z.enum(['markdown', 'input', 'textarea']),
      id: z.string().optional(),
      attributes: z.object({ label: z.string().optional(), value: z.string().optional() }),
      validations: z.object({ required: z.boolean() }).optional(),
    }),
  ),
});

test('the forms of issues ask for the version and never for a key', (t) => {
  for (const name of ['bug', 'feature']) {
    const { body } = formSchema.parse(parse(read(`.github/ISSUE_TEMPLATE/${name}.yml`)));
    t.true(body.find(({ id }) => id === 'version')?.validations?.required, name);
    t.regex(body.find(({ type }) => type === 'markdown')?.attributes.value ?? '', /Leave out keys, tokens, prompts/);
    const fields = body.filter(({ type }) => type !== 'markdown');
    for (const { id, attributes } of fields) t.true(id !== undefined && attributes.label !== undefined, name);
    t.is(new Set(fields.map(({ id }) => id)).size, fields.length);
  }
  t.regex(read('.github/ISSUE_TEMPLATE/bug.yml'), /security\/advisories\/new/);
  t.regex(read('.github/PULL_REQUEST_TEMPLATE.md'), /Leave out keys, tokens, prompts/);
  t.deepEqual(parse(read('.github/ISSUE_TEMPLATE/config.yml')), { blank_issues_enabled: false });
});

test('the README says in one line that no licence is granted yet, and no file grants one', (t) => {
  t.is(read('README.md').match(/^No licence is granted yet: .*$/gm)?.length, 1);
  t.false('license' in z.record(z.string(), z.unknown()).parse(JSON.parse(read('package.json'))));
});

test('the page about upgrading says how to check this release, by the names that the workflow writes', (t) => {
  const page = read('ingress/documentation/upgrading.md');
  const version = versionsOf(root).get('package.json');
  for (const needed of [
    'sha256sum --check SHA256SUMS\n',
    'cosign verify-blob SHA256SUMS --bundle SHA256SUMS.sigstore.json ',
    `--certificate-identity https://github.com/OWNER/REPOSITORY/.github/workflows/release.yml@refs/tags/v${version}\n`,
    `gh attestation verify inference-service-${version}.tar.gz --repo OWNER/REPOSITORY\n`,
  ])
    t.true(page.includes(needed), needed);
  t.true(
    read(`${folder}/release.yml`).includes('cosign sign-blob --yes --bundle SHA256SUMS.sigstore.json SHA256SUMS\n'),
  );
});
