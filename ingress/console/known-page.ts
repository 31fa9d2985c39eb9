import { type ComponentChildren, h } from 'preact';
import type { OwnAccount } from '../routes/developer-keys.ts';
import type { Api } from './api/api.ts';
import type { LoadState } from './api/use-loaded.ts';
import { BatchesPage, BatchPage } from './batches/batches-page.ts';
import { FleetPage } from './fleet/fleet-page.ts';
import type { FullKey, HeldKeys } from './keys/held-keys.ts';
import { KeysPage } from './keys/keys-page.ts';
import { ServicePage } from './operator-home/service-page.ts';
import { AccountPage } from './operators/account-page.ts';
import { AccountsPage } from './operators/accounts-page.ts';
import { AuditPage } from './operators/audit-page.ts';
import { CodesPage } from './operators/codes-page.ts';
import { AnyBatchPage, AnyRequestPage, FindPage } from './operators/find-page.ts';
import { PlanFilePage } from './operators/plan-file-page.ts';
import { OverviewPage } from './overview/overview-page.ts';
import { isForOperators, type PageName, pages, type Route } from './page/console-route.ts';
import { LoadedView } from './page/loaded-view.ts';
import { RequestPage } from './requests/request-page.ts';
import { RequestsPage } from './requests/requests-page.ts';
import type { ConsoleSettings } from './session/browser.ts';
import { TryItPage } from './try-it/try-it-page.ts';
import type { Trial } from './try-it/use-trial.ts';
import { AllUsagePage, UsagePage } from './usage/usage-page.ts';
import { WebhooksPage } from './webhooks/webhooks-page.ts';

export type PageProps = {
  api: Api;
  route: Route;
  settings: ConsoleSettings;
  own: LoadState<OwnAccount | undefined>;
  held: HeldKeys;
  trial: Trial;
};

/** The page that the address names. A page for operators waits until the service has said who the user is. */
export function KnownPage(props: PageProps) {
  const { page } = props.route;
  if (!isForOperators(page) || props.own.value?.operator) return shown[page](props);
  return h(LoadedView<OwnAccount | undefined>, {
    loaded: props.own,
    what: 'your account',
    children: (own) => own && h(OnlyOperators, { page }),
  });
}

const shown: Record<PageName, (props: PageProps) => ComponentChildren> = {
  service: ({ api, settings: { docsUrl } }) => h(ServicePage, { api, docsUrl }),
  overview: ({ api, settings: { baseUrl, docsUrl }, own, held }) =>
    h(OverviewPage, { api, baseUrl, docsUrl, held, isOperator: own.value?.operator ?? false }),
  requests: ({ api, route: { item, filter = {} }, settings: { baseUrl, docsUrl } }) =>
    item === undefined
      ? h(RequestsPage, { api, filter, baseUrl, docsUrl })
      : h(RequestPage, { api, id: item, baseUrl, docsUrl }),
  batches: ({ api, route: { item } }) =>
    item === undefined ? h(BatchesPage, { api }) : h(BatchPage, { api, id: item }),
  usage: ({ api, route: { filter = {}, isTopUp = false }, own }) =>
    h(UsagePage, { api, account: own.value?.account ?? '', filter, isTopUp }),
  keys({ api, held, trial, route: { isNewKey = false } }) {
    const tryOut = (key: FullKey) => {
      trial.startWith(key);
      window.location.hash = 'try-it';
    };
    return h(KeysPage, { api, held, untilRevoked: trial.consoleKey.untilRevoked, isNewKey, tryOut });
  },
  webhooks: ({ api, own, settings: { docsUrl } }) =>
    h(WebhooksPage, { api, docsUrl, isOperator: own.value?.operator ?? false }),
  'try-it': ({ api, settings: { baseUrl, docsUrl }, trial, held }) =>
    h(TryItPage, { api, baseUrl, docsUrl, trial, held }),
  find({ api, route: { item, search = '' }, settings: { baseUrl, docsUrl } }) {
    if (item === undefined) return h(FindPage, { api, text: search });
    return item.startsWith('batch_')
      ? h(AnyBatchPage, { api, id: item })
      : h(AnyRequestPage, { api, id: item, baseUrl, docsUrl });
  },
  fleet: ({ api, settings: { docsUrl } }) => h(FleetPage, { api, docsUrl }),
  accounts({ api, route: { item, search = '', action } }) {
    if (item === undefined) return h(AccountsPage, { api, prefix: search });
    return h(AccountPage, { key: `${item} ${action}`, api, name: item, action });
  },
  'all-usage': ({ api, route: { filter = {} } }) => h(AllUsagePage, { api, filter }),
  audit: ({ api, route: { filter = {} } }) => h(AuditPage, { api, filter }),
  'top-up-codes': ({ api, route: { state } }) => h(CodesPage, { api, state }),
  settings: ({ api }) => h(PlanFilePage, { api }),
};

function OnlyOperators({ page }: { page: PageName }) {
  return [
    h('h1', { tabIndex: -1 }, pages[page]),
    h('p', { class: 'empty' }, 'This page is for operators, and your account is not one of them.'),
  ];
}
