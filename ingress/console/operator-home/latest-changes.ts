import { h } from 'preact';
import type { AuditRecord } from '../../routes/audit.ts';
import type { Api } from '../api/api.ts';
import { useLoaded, usePolled } from '../api/use-loaded.ts';
import { ChangeWords } from '../operators/audit-words.ts';
import { AccountLink } from '../page/identifiers.ts';
import { LoadedView, Panel } from '../page/loaded-view.ts';
import { TimeAgo } from '../page/time-ago.ts';

const shown = 6;
const everyMs = 30_000;

/** What was changed last, and by whom. */
export function LatestChanges({ api }: { api: Api }) {
  const loaded = useLoaded(
    (signal) => api.call<{ data: AuditRecord[] }>(`/admin/audit?limit=${shown}`, { signal }),
    [],
  );
  usePolled(loaded, { everyMs });
  return h(
    Panel,
    { title: 'Latest changes', more: { href: '#audit', link: 'Audit trail' } },
    h(LoadedView<{ data: AuditRecord[] }>, {
      loaded,
      what: 'the changes',
      lines: shown,
      children: ({ data }) =>
        data.length === 0
          ? h('p', { class: 'quiet' }, 'There are no changes.')
          : h(
              'ul',
              { class: 'rows changes' },
              data.map((record) => h(Change, { key: record.id, record })),
            ),
    }),
  );
}

function Change({ record: { at, actor, actor_name: name, account, account_name: accountName, change } }: ChangeProps) {
  return h(
    'li',
    null,
    h('span', { class: 'quiet' }, h(TimeAgo, { at }), ` · ${name ?? actor ?? 'the service'}`),
    h(
      'span',
      null,
      account !== null && account !== actor && [h(AccountLink, { account, name: accountName }), ': '],
      h(ChangeWords, { change }),
    ),
  );
}

type ChangeProps = { record: AuditRecord };
