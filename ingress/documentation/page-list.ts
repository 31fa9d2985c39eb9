import { readFileSync } from 'node:fs';
import type { WebhookEvent } from '../../shared/store/records/webhooks.ts';

/** Pages under a title, each `<name>.md` beside this file, in order. */
type NamedGroup = { title: string; names: readonly string[] };

/**
 * The pages by their readers: the navigation of a page has only the groups of its reader, and links to the first pages of the others. To
 * add a page, add its name.
 */
export const audiences: readonly { title: string; groups: readonly NamedGroup[] }[] = [
  {
    title: 'Use the API',
    groups: [
      {
        title: 'Start',
        names: ['start', 'quick-start', 'move-from-openai', 'use-it-from', 'authentication', 'keys', 'changelog'],
      },
      {
        title: 'Endpoints',
        names: [
          'endpoints/chat',
          'endpoints/responses',
          'endpoints/messages',
          'endpoints/completions',
          'endpoints/embeddings',
          'endpoints/rerank',
        ],
      },
      {
        title: 'Guides',
        names: ['streaming', 'errors', 'retry-safely', 'limits', 'usage', 'find-a-request'],
      },
      { title: 'Batches and events', names: ['batches', 'webhooks'] },
    ],
  },
  {
    title: 'Run and operate it',
    groups: [
      {
        title: 'Set up',
        names: [
          'operating',
          'configuration',
          'model-servers',
          'sign-in',
          'behind-a-proxy',
          'kubernetes',
          'redis',
          'mongodb',
          'multi-region',
          'compatibility',
          'upgrading',
        ],
      },
      {
        title: 'Operate',
        names: [
          'accounts',
          'billing',
          'monitoring',
          'observability',
          'scaling',
          'waiting',
          'prefix-caches',
          'failures',
          'security',
        ],
      },
      { title: 'Compare', names: ['comparison', 'benchmarks'] },
      {
        title: 'Runbooks',
        names: [
          'runbooks/backup-and-restore',
          'runbooks/no-process',
          'runbooks/process-away',
          'runbooks/processes-not-ready',
          'runbooks/requests-failing',
          'runbooks/first-token-slow',
          'runbooks/model-down',
          'runbooks/backend-not-called',
          'runbooks/backend-account-refused',
          'runbooks/backend-failing',
          'runbooks/backend-lacks-model',
          'runbooks/backend-loading',
          'runbooks/backends-retried',
          'runbooks/output-limit-ignored',
          'runbooks/pool-without-workers',
          'runbooks/pool-with-one-worker',
          'runbooks/queue-waits-long',
          'runbooks/queue-full',
          'runbooks/connections-refused',
          'runbooks/bodies-refused',
          'runbooks/usage-not-stored',
          'runbooks/usage-unreadable',
          'runbooks/requests-not-settled',
          'runbooks/leases-expiring',
          'runbooks/answers-not-kept',
          'runbooks/answers-wait',
          'runbooks/store-indexes-missing',
          'runbooks/batches-late',
          'runbooks/batch-lines-lost',
          'runbooks/webhooks-not-sent',
          'runbooks/webhook-endpoints-disabled',
          'runbooks/plan-file-invalid',
          'runbooks/plan-files-differ',
          'runbooks/issuer-keys-old',
          'runbooks/spans-not-exported',
        ],
      },
    ],
  },
  {
    title: 'Internals',
    groups: [
      {
        title: 'Internals',
        names: ['internals/architecture', 'internals/contract', 'internals/decisions', 'internals/glossary'],
      },
    ],
  },
];

/**
 * The pages that are made from the OpenAPI document are the last group of the first readers. The first is `reference`, the others are below
 * it.
 */
export const reference = { title: 'API reference', name: 'reference' } as const;

/** The pages that are written by hand, in the order of the navigation. */
export const pageNames: readonly string[] = audiences.flatMap(({ groups }) => groups.flatMap(({ names }) => names));

/** When an event of each type is sent, and its data. */
const events: Readonly<Record<WebhookEvent, { when: string; data: string }>> = {
  'batch.completed': { when: 'a batch has completed', data: '`id`: the batch' },
  'batch.failed': { when: 'the file of a batch was refused', data: '`id`: the batch' },
  'batch.expired': { when: 'the time of a batch was over', data: '`id`: the batch' },
  'batch.cancelled': { when: 'a batch was cancelled', data: '`id`: the batch' },
  'quota.threshold': {
    when: 'usage of the month has reached 80, 95 or 100 % of the allowance, once each',
    data: '`period` (`YYYY-MM`), `threshold`, `used`, `limit`',
  },
  'key.expiring': {
    when: 'a [further key](keys.md) expires within seven days, once for each expiry',
    data: '`id`, `name`, `expires_at`',
  },
};

const eventRows = Object.entries(events)
  .map(([type, { when, data }]) => `| \`${type}\` | ${when} | ${data} |`)
  .join('\n');

export function readPages(): { name: string; markdown: string }[] {
  return pageNames.map((name) => ({
    name,
    markdown: readFileSync(new URL(`./${name}.md`, import.meta.url), 'utf8').replace(
      '{{webhook_event_rows}}',
      eventRows,
    ),
  }));
}

/** The name of the page that a link on the page `from` leads to. `link` is relative to its file, without `.md`. */
export function linkedPage(from: string, link: string): string {
  return new URL(link, `http://pages/${from}`).pathname.slice(1);
}
