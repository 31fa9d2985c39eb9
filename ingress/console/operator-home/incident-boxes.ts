import { type ComponentChildren, h } from 'preact';
import { useMemo } from 'preact/hooks';
import type { FleetView } from '../../routes/fleet.ts';
import type { UsageReport } from '../../usage/usage-report.ts';
import type { Api } from '../api/api.ts';
import { type LoadState, useLoaded, usePolled } from '../api/use-loaded.ts';
import { daySeconds, hourSeconds, hourText, stepAt } from '../charts/steps.ts';
import { listed } from '../fleet/backend-state.ts';
import { findingsIn } from '../fleet/fleet-findings.ts';
import { failedSince, hoursOf, type Incident, incidentsIn } from '../fleet/incidents.ts';
import { accountLink, foundLink } from '../page/console-route.ts';
import { formatCount, formatRest } from '../page/format.ts';
import { Icon, StateBadge } from '../page/icons.ts';

/** Beside the title of the page. */
export function IncidentCount({ fleet }: { fleet: FleetView }) {
  const [incidents, findings] = [incidentsIn(fleet).length, findingsIn(fleet).length];
  if (incidents > 0)
    return h(StateBadge, { state: incidents === 1 ? '1 incident' : `${incidents} incidents`, tone: 'bad' });
  if (findings > 0)
    return h(StateBadge, { state: findings === 1 ? '1 finding' : `${findings} findings`, tone: 'warning' });
  return h(StateBadge, { state: 'all is well', tone: 'good' });
}

type Props = { fleet: FleetView; api: Api; docsUrl: string };

/** What is wrong, each in a box, and what is unusual. Announced when something else is wrong, and not each time that a number changes. */
export function IncidentBoxes({ fleet, api, docsUrl }: Props) {
  const [incidents, findings] = [incidentsIn(fleet), findingsIn(fleet)];
  const keys = [...incidents, ...findings].map(({ key }) => key).toSorted();
  const announced = useMemo(
    () => [...incidents.map(({ title }) => title), ...findings.map(({ text }) => text)].join(' '),
    [keys.join('\n')],
  );
  const failed = useFailedRequests(api, incidents);
  return [
    h('span', { class: 'unseen', role: 'status' }, announced),
    incidents.map((incident) => h(IncidentBox, { key: incident.key, incident, failed, docsUrl })),
    findings.length > 0 &&
      h(
        'ul',
        { class: 'findings' },
        findings.map(({ text, key }) => h('li', { key }, h(Icon, { name: 'wrong' }), text)),
      ),
  ];
}

const countEveryMs = 15_000;
const rowsMax = 1_000;

/** Failed requests by account, hour and model since the first incident has begun. Without incidents there is nothing to read. */
function useFailedRequests(api: Api, incidents: readonly Incident[]): LoadState<UsageReport | undefined> {
  const down = incidents.filter(({ models }) => models.length > 0);
  const { start, end } = hoursOf(down, Date.now() / 1_000);
  const query = new URLSearchParams({
    ...{ start: hourText(start), end: hourText(end) },
    ...{ group_by: 'account,hour,model', order: 'failed', limit: String(rowsMax) },
  });
  const loaded = useLoaded(
    async (signal) => (down.length === 0 ? undefined : api.call<UsageReport>(`/admin/usage?${query}`, { signal })),
    [down.length === 0, query.toString()],
  );
  usePolled(loaded, { everyMs: countEveryMs, active: down.length > 0 });
  return loaded;
}

type BoxProps = { incident: Incident; failed: LoadState<UsageReport | undefined>; docsUrl: string };

function IncidentBox({ incident, failed, docsUrl }: BoxProps) {
  const { tone, title, since, causes, request, runbook } = incident;
  const parts: ComponentChildren[] = causes.map(({ backends, words, addresses }) => [
    backends.length > 0 && `${listed(backends)}: `,
    h('strong', null, words),
    addresses.length > 0 && ` (${addresses.join(', ')})`,
  ]);
  const counted = h(Counted, { incident, failed });
  return h(
    'section',
    { class: tone === 'bad' ? 'incident bad' : 'incident', 'aria-label': title },
    h(
      'div',
      { class: 'incident-head' },
      h('h2', null, title, since !== undefined && ` since ${sinceWords(since)}`),
      h(
        'div',
        { class: 'actions tight' },
        h('a', { class: 'button', href: `${docsUrl}/runbooks/${runbook}` }, 'Runbook'),
        request !== undefined && h('a', { class: 'button', href: foundLink(request) }, 'Failed request'),
      ),
    ),
    h(
      'p',
      null,
      [...parts, counted].flatMap((part, index) => (index === 0 ? [part] : [' · ', part])),
    ),
  );
}

const clock = new Intl.DateTimeFormat('en-GB', { timeStyle: 'short' });
const dayAndClock = new Intl.DateTimeFormat('en-GB', {
  ...{ day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' },
});

/** `04:00`; `29 Nov, 04:00` if that was a day ago or longer. */
function timeWords(seconds: number, now: number): string {
  return (now - seconds < daySeconds ? clock : dayAndClock).format(seconds * 1_000);
}

/** `04:00 (6 min)`. */
function sinceWords(since: number): string {
  const now = Date.now() / 1_000;
  const passed = Math.max(0, now - since);
  return `${timeWords(since, now)} (${formatRest(passed * 1_000).match(/^\d+ \S+/)?.[0] ?? ''})`;
}

const namesShown = 3;

/** How many requests of whom could not be answered. Usage knows hours, so a part of the first hour can be from before. */
function Counted({ incident: { models, since }, failed: { value: report, error } }: Omit<BoxProps, 'docsUrl'>) {
  if (models.length === 0) return 'Other backends answer instead.';
  if (report === undefined)
    return error === undefined ? 'Counting the requests …' : 'The requests could not be counted. This is tried again.';
  const now = Date.now() / 1_000;
  const hour = stepAt(since ?? now, hourSeconds);
  const { requests, accounts } = failedSince(report, models, hour);
  const time = hour === stepAt(now, hourSeconds) ? 'in this hour' : `since ${timeWords(hour, now)}`;
  if (requests === 0) return `No request has failed ${time}.`;
  const least = report.rowCount > report.data.length ? 'at least ' : '';
  return [
    `${least}${formatCount(requests)} ${requests === 1 ? 'request' : 'requests'} of ${least}${formatCount(accounts.length)} `,
    accounts.length === 1 ? 'account (' : 'accounts (',
    accounts
      .slice(0, namesShown)
      .flatMap(({ account, name }, index) => [
        index > 0 && ', ',
        h('a', { key: account, href: accountLink(account), title: account }, name ?? account),
      ]),
    accounts.length > namesShown && ', …',
    `) got an error of the service ${time}.`,
  ];
}
