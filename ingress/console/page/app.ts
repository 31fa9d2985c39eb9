import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Api } from '../api/api.ts';
import { BatchesPage } from '../batches/batches-page.ts';
import { KeysPage } from '../keys/keys-page.ts';
import { AccountPage } from '../operators/account-page.ts';
import { OperatorsPage } from '../operators/operators-page.ts';
import type { Session, SessionState } from '../session/session.ts';
import type { ConsoleSettings } from '../settings.ts';
import { TryItPage } from '../try-it/try-it-page.ts';
import { UsagePage } from '../usage/usage-page.ts';
import { Header } from './header.ts';
import { pages, parseRoute, type Route } from './route.ts';

type Props = { session: Session; api: Api; settings: ConsoleSettings };

/** The whole page: who is signed in, where they are, and that page. */
export function App({ session, api, settings }: Props) {
  const state = useSession(session);
  const route = useRoute();
  const main = useRef<HTMLElement>(null);
  const place = `${route.page}/${route.account ?? ''}`;
  const isSignedIn = state.name === 'signed in';
  useFocusOn(main, `${isSignedIn} ${place}`);

  useEffect(() => {
    document.title = isSignedIn ? `${route.account ?? pages[route.page]} · Console` : 'Sign in · Console';
  }, [isSignedIn, place]);

  return [
    h('a', { class: 'skip', href: '#main', onClick: (event: Event) => skip(event, main.current) }, 'To the content'),
    h(Header, { state, route, docsUrl: settings.docsUrl, signOut: () => void session.signOut() }),
    h(
      'main',
      { id: 'main', ref: main, tabIndex: -1 },
      isSignedIn
        ? h(Page, { key: place, api, route, baseUrl: settings.baseUrl, isOperator: state.isOperator })
        : h(SignedOut, { state, signIn: () => session.signIn() }),
    ),
  ];
}

type PageProps = { api: Api; route: Route; baseUrl: string; isOperator: boolean };

function Page({ api, route, baseUrl, isOperator }: PageProps) {
  if (route.page === 'usage') return h(UsagePage, { api, isTopUp: route.section === 'top-up' });
  if (route.page === 'try-it') return h(TryItPage, { api, baseUrl });
  if (route.page === 'batches') return h(BatchesPage, { api });
  if (route.page === 'keys') return h(KeysPage, { api });
  if (!isOperator) {
    return [
      h('h1', { tabIndex: -1 }, 'Operators'),
      h('p', { class: 'empty' }, 'This page is for operators: it needs a sign-in with the scope svc:admin.'),
    ];
  }
  return route.account === undefined ? h(OperatorsPage, { api }) : h(AccountPage, { api, name: route.account });
}

function SignedOut({ state, signIn }: { state: SessionState; signIn: () => Promise<void> }) {
  const [busy, setBusy] = useState(false);
  if (state.name === 'starting') return h('p', { role: 'status', class: 'quiet' }, 'Asking who you are …');
  const message = state.name === 'signed out' ? state.message : undefined;

  async function leave(): Promise<void> {
    setBusy(true);
    await signIn();
    setBusy(false);
  }

  return h(
    'section',
    { class: 'sign-in' },
    h('h1', { tabIndex: -1 }, 'Console'),
    h('p', null, 'Keys, usage and batches of your account. You sign in at your sign-in provider, and come back here.'),
    message && h('p', { role: 'alert', class: 'warning' }, message),
    h('button', { type: 'button', class: 'primary', disabled: busy, onClick: () => void leave() }, 'Sign in'),
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

/** A page that is new is read from its heading on; the first one of all leaves the focus where browsers have it. */
function useFocusOn(main: { current: HTMLElement | null }, place: string): void {
  const before = useRef(place);
  useEffect(() => {
    if (before.current === place) return;
    before.current = place;
    const heading = main.current?.querySelector('h1');
    if (heading?.contains(document.activeElement) === false) heading.focus();
    window.scrollTo(0, 0);
  }, [place]);
}

/** The fragment says which page this is, so that a link to a part of it must not change it. */
function skip(event: Event, main: HTMLElement | null): void {
  event.preventDefault();
  main?.focus();
}
