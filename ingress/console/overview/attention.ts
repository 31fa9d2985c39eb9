import { type ComponentChildren, h } from 'preact';
import type { Batch } from '../../routes/present-batch.ts';
import type { Key } from '../../routes/present-key.ts';
import type { UsageReport } from '../../usage/usage-report.ts';
import { restOf, shownState } from '../keys/key-state.ts';
import { batchLink, requestsLink } from '../page/console-route.ts';
import { formatCount, formatRest } from '../page/format.ts';
import { StateBadge, type Tone } from '../page/icons.ts';
import { Panel } from '../page/loaded-view.ts';
import { filterOfCode, isServiceError, refusedModel } from '../requests/code-words.ts';

/** Something that the owner of the account should look at. */
export type Concern = { key: string; label: string; tone: Tone; text: string; link?: { href: string; action: string } };

const soonMs = 7 * 86_400_000;
const shownMax = 6;

type Sources = {
  usage?: UsageReport | undefined;
  /** The same span by model, which says what was refused. */
  models?: UsageReport | undefined;
  keys?: Key[] | undefined;
  batches?: Batch[] | undefined;
};

/** Errors of the span by code, keys that end soon, and batches with failed lines; the most pressing first. */
export function concernsOf({ usage, models, keys = [], batches = [] }: Sources, now: number): Concern[] {
  return [
    ...(usage === undefined
      ? []
      : errorConcerns(usage, models?.data.find(({ model }) => model === refusedModel)?.errors)),
    ...keys.flatMap((key) => endingSoon(key, now)),
    ...batches.flatMap(failedLines),
  ];
}

/** Clients that exceed a limit or send a wrong request see it themselves: only failures of the service are pressing. */
function errorConcerns(
  { total: { errors = {} } }: UsageReport,
  refused: Readonly<Record<string, number>> = {},
): Concern[] {
  return Object.entries(errors)
    .toSorted(([, one], [, other]) => other - one)
    .map(([code, requests]) => ({
      key: `error ${code}`,
      label: code,
      tone: isServiceError(code) ? 'bad' : 'warning',
      text: `${formatCount(requests)} ${requests === 1 ? 'request' : 'requests'}`,
      ...(requests > (refused[code] ?? 0) && {
        link: { href: requestsLink(filterOfCode(code)), action: 'Requests' },
      }),
    }));
}

function endingSoon(key: Key, now: number): Concern[] {
  const restMs = restOf(key, now);
  const isUsable = ['active', 'in grace'].includes(shownState(key, now));
  if (!isUsable || restMs === undefined || restMs > soonMs) return [];
  const text = `"${key.name}" expires in ${formatRest(restMs)}`;
  return [{ key: `key ${key.id}`, label: 'key', tone: 'warning', text, link: { href: '#keys', action: 'Keys' } }];
}

const running: ReadonlySet<Batch['status']> = new Set(['in_progress', 'finalizing', 'completed', 'failed']);

/** Lines of a cancelled or expired batch fail because they did not run. */
function failedLines({ id, status, request_counts: counts }: Batch): Concern[] {
  if (!running.has(status)) return [];
  if (counts.failed === 0 && status !== 'failed') return [];
  const text =
    counts.failed === 0
      ? `${id} did not run`
      : `${formatCount(counts.failed)} of ${formatCount(counts.total)} lines failed`;
  return [
    { key: `batch ${id}`, label: 'batch', tone: 'warning', text, link: { href: batchLink(id), action: 'Batch' } },
  ];
}

export function Attention(props: Sources) {
  const concerns = concernsOf(props, Date.now());
  const isKnown = props.usage !== undefined && props.keys !== undefined && props.batches !== undefined;
  return h(Panel, { title: 'Needs attention' }, contentOf(concerns, isKnown));
}

function contentOf(concerns: readonly Concern[], isKnown: boolean): ComponentChildren {
  if (concerns.length === 0) return h('p', { class: 'quiet' }, isKnown ? 'Nothing does.' : ' ');
  return h(
    'ul',
    { class: 'rows concerns' },
    concerns
      .slice(0, shownMax)
      .map(({ key, label, tone, text, link }) =>
        h(
          'li',
          { key },
          h(StateBadge, { state: label, tone }),
          h('span', null, text),
          link && h('a', { href: link.href }, link.action),
        ),
      ),
  );
}
