import { h } from 'preact';
import { useEffect, useErrorBoundary, useRef, useState } from 'preact/hooks';
import type { Api } from './api/api.ts';
import { BatchesPage } from './batches/batches-page.ts';
import { Header } from './frame/sidebar.ts';
import { type HeldKeys, useHeldKeys } from './keys/held-keys.ts';
import { KeysPage } from './keys/keys-page.ts';
import { AccountPage } from './operators/account-page.ts';
import { AllUsagePage } from './operators/all-usage-page.ts';
import { AuditPage } from './operators/audit-page.ts';
import { OperatorsPage } from './operators/operators-page.ts';
import { Failure } from './page/failure.ts';
import { keepFocus } from './page/keep-focus.ts';
import { pages, parseRoute, type Route, titleOf } from './page/route.ts';
import { useDoing } from './page/use-doing.ts';
import type { Session, SessionState } from './session/session.ts';
import type { ConsoleSettings } from './session/settings.ts';
import { SettingsPage } from './settings/settings-page.ts';
import { CodesPage } from './top-up-codes/codes-page.ts';
import { TryItPage } from './try-it/try-it-page.ts';
import { UsagePage } from './usage/usage-page.ts';
import { WebhooksPage } from './webhooks/webhooks-page.ts';

type Props = { session: Session; api: Api; settings: ConsoleSettings };

/** The header and the current page, or the sign-in page. */
export function App({ session, api, settings }: Props) {
  const state = useSession(session);
  const route = useRoute();
  const main = useRef<HTMLElement>(null);
  const place = `${route.page}/${route.account ?? route.section ?? ''}`;
  const isSignedIn = state.name === 'signed in';
  const held = useHeldKeys();
  useFocusOn(main, `${isSignedIn} ${place}`);

  useEffect(() => (main.current === null ? undefined : keepFocus(main.current)), []);
  useEffect(() => {
    if (!isSignedIn) held.clear();
  }, [isSignedIn]);

  useEffect(() => {
    document.title = isSignedIn ? `${titleOf(route)} · Console` : 'Sign in · Console';
  }, [isSignedIn, place]);

  return [
    h('a', { class: 'skip', href: '#main', onClick: (event: Event) => skip(event, main.current) }, 'Skip to content'),
    h(Header, { state, route, docsUrl: settings.docsUrl, signOut: () => void session.signOut() }),
    h(
      'main',
      { id: 'main', ref: main, tabIndex: -1 },
      isSignedIn
        ? h(Page, { key: place, api, route, settings, isOperator: state.isOperator, held })
        : h(SignedOut, { state, signIn: () => session.signIn() }),
    ),
  ];
}

type PageProps = Omit<Props, 'session'> & {
  route: Route;
  isOperator: boolean;
  held: HeldKeys;
};

/** An exception in a page leaves the header working. */
function Page(props: PageProps) {
  const [error, recover] = useErrorBoundary();
  if (error !== undefined)
    return [h('h1', { tabIndex: -1 }, pages[props.route.page]), h(Failure, { error, retry: recover })];
  return h(KnownPage, props);
}

function KnownPage({ api, route, settings, isOperator, held }: PageProps) {
  if (route.page === 'usage') return h(UsagePage, { api, isTopUp: route.section === 'top-up' });
  if (route.page === 'try-it') {
    const { tried, tryOut } = held;
    return h(TryItPage, { api, baseUrl: settings.baseUrl, given: tried, forget: () => tryOut(undefined) });
  }
  if (route.page === 'batches') return h(BatchesPage, { api });
  if (route.page === 'webhooks') return h(WebhooksPage, { api });
  if (route.page === 'keys') return h(KeysPage, { api, held });
  if (!isOperator) {
    return [
      h('h1', { tabIndex: -1 }, 'Operators'),
      h('p', { class: 'empty' }, 'This page is for operators: it requires the scope svc:admin.'),
    ];
  }
  if (route.section === 'settings') return h(SettingsPage, { api });
  if (route.section === 'all-usage') return h(AllUsagePage, { api });
  if (route.section === 'codes') return h(CodesPage, { api, state: route.state });
  if (route.section === 'audit') return h(AuditPage, { api, filter: route.filter ?? {} });
  return route.account === undefined
    ? h(OperatorsPage, { api, prefix: route.search ?? '' })
    : h(AccountPage, { key: route.account, api, name: route.account });
}

function SignedOut({ state, signIn }: { state: SessionState; signIn: () => Promise<void> }) {
  const doing = useDoing(signIn);
  if (state.name === 'starting') return h('p', { role: 'status', class: 'quiet' }, 'Checking your sign-in …');
  if (state.name === 'signing out') return h('p', { role: 'status', class: 'quiet' }, 'Signing out …');
  const message = state.name === 'signed out' ? state.message : undefined;

  return h(
    'section',
    { class: 'sign-in' },
    h('h1', { tabIndex: -1 }, 'Console'),
    h('p', null, 'Keys, usage and batches of your account. You sign in at your sign-in provider and return here.'),
    message && h('p', { role: 'alert', class: 'warning' }, message),
    h('button', { type: 'button', class: 'primary', 'aria-disabled': doing.busy, onClick: doing.run }, 'Sign in'),
  );
}

function useSession(session: Session): SessionState {
  const [state, setState] = useState(session.state());
  useEffect(() => {
    setState(session.state());
    return session.follow(() => setState(session.state()));
  }, [session]);
  return state;
}

function useRoute(): Route {
  const [route, setRoute] = useState(parseRoute(window.location.hash));
  useEffect(() => {
    const changed = () => setRoute(parseRoute(window.location.hash));
    window.addEventListener('hashchange', changed);
    return () => window.removeEventListener('hashchange', changed);
  }, []);
  return route;
}

/** Moves the focus to the heading of a new page, or to the section that its address names; the first page keeps the browser's default focus. */
function useFocusOn(main: { current: HTMLElement | null }, place: string): void {
  const before = useRef(place);
  useEffect(() => {
    if (before.current === place) return;
    before.current = place;
    window.scrollTo(0, 0);
    const goal = main.current?.querySelector<HTMLElement>('[data-goal]') ?? main.current?.querySelector('h1');
    goal?.focus();
  }, [place]);
}

/** The fragment identifies the page, so the skip link must not change it. */
function skip(event: Event, main: HTMLElement | null): void {
  event.preventDefault();
  main?.focus();
}
