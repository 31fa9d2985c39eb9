import { h } from 'preact';
import { useEffect, useErrorBoundary, useRef, useState } from 'preact/hooks';
import type { OwnAccount } from '../routes/developer-keys.ts';
import type { Api } from './api/api.ts';
import { type LoadState, useLoaded } from './api/use-loaded.ts';
import { CommandPalette } from './command-palette.ts';
import { useHeldKeys } from './keys/held-keys.ts';
import { KnownPage, type PageProps } from './known-page.ts';
import { useDoing } from './page/actions.ts';
import { pages, parseRoute, type Route, titleOf } from './page/console-route.ts';
import { keepFocus, useFocusOn } from './page/focus.ts';
import { Failure, LoadedView } from './page/loaded-view.ts';
import { Mark, ProductContext } from './page/product.ts';
import type { ConsoleSettings } from './session/browser.ts';
import type { Session, SessionState } from './session/session.ts';
import { ShortcutsDialog, useShortcuts } from './shortcuts.ts';
import { Sidebar } from './sidebar.ts';
import { type Trial, useTrial } from './try-it/use-trial.ts';

type Props = { session: Session; api: Api; settings: ConsoleSettings };

/** The navigation and the current page, or the sign-in page. */
export function ConsoleApp({ session, api, settings }: Props) {
  const { docsUrl, product } = settings;
  const state = useSession(session);
  const asked = useRoute();
  const main = useRef<HTMLElement>(null);
  const isSignedIn = state.name === 'signed in';
  const own = useOwnAccount(api, isSignedIn);
  const isOperator = own.value?.operator ?? false;
  const route: Route = asked.isHome && isOperator ? { page: 'service' } : asked;
  const place = `${route.page}/${route.item ?? ''}${route.isTopUp ? 'top-up' : ''}`;
  const account = own.value?.account ?? (isSignedIn ? `user:${state.account}` : '');
  const held = useHeldKeys();
  const trial = useTrial(api);
  const { open, setOpen } = useShortcuts({ isSignedIn, isOperator });
  // What has closed may have opened the other one.
  const closing = (what: typeof open) => () => setOpen((before) => (before === what ? undefined : before));
  useFocusOn(main, `${isSignedIn} ${place}`);

  useEffect(() => (main.current === null ? undefined : keepFocus(main.current)), []);
  useEffect(() => {
    if (isSignedIn) return;
    held.clear();
    trial.forget();
  }, [isSignedIn]);

  useEffect(() => {
    document.title = `${isSignedIn ? titleOf(route) : 'Sign in'} · ${product.name}`;
  }, [isSignedIn, place]);

  const signOut = () => void endConsoleKey(trial).then(() => session.signOut());
  const page = [
    h('a', { class: 'skip', href: '#main', onClick: (event: Event) => skip(event, main.current) }, 'Skip to content'),
    isSignedIn &&
      h(Sidebar, {
        account,
        isOperator,
        route,
        docsUrl,
        openPalette: () => setOpen('palette'),
        signOut,
      }),
    h(
      'main',
      { id: 'main', ref: main, tabIndex: -1 },
      isSignedIn
        ? h(Page, { key: place, api, route, settings, own, held, trial })
        : h(SignedOut, { state, signIn: () => session.signIn(), settings }),
    ),
    isSignedIn &&
      open === 'palette' &&
      h(CommandPalette, {
        ...{ api, isOperator, docsUrl, account, signOut, close: closing('palette') },
        showShortcuts: () => setOpen('shortcuts'),
      }),
    isSignedIn && open === 'shortcuts' && h(ShortcutsDialog, { isOperator, close: closing('shortcuts') }),
  ];
  return h(ProductContext.Provider, { value: product }, page);
}

/** An exception in a page leaves the navigation working. */
function Page(props: PageProps) {
  const [error, recover] = useErrorBoundary();
  if (error !== undefined)
    return [h('h1', { tabIndex: -1 }, pages[props.route.page]), h(Failure, { error, retry: recover })];
  // Which home is that of the user is only known with the account.
  if (props.route.isHome && props.own.value === undefined && props.own.error === undefined)
    return h(LoadedView<OwnAccount | undefined>, {
      loaded: props.own,
      what: 'your account',
      lines: 12,
      children: () => null,
    });
  return h(KnownPage, props);
}

type SignedOutProps = { state: SessionState; signIn: () => Promise<void>; settings: ConsoleSettings };

function SignedOut({ state, signIn, settings: { docsUrl, product } }: SignedOutProps) {
  const doing = useDoing(signIn);
  if (state.name === 'starting') return h('p', { role: 'status', class: 'quiet' }, 'Checking your sign-in …');
  if (state.name === 'signing out') return h('p', { role: 'status', class: 'quiet' }, 'Signing out …');
  const message = state.name === 'signed out' ? state.message : undefined;

  return h(
    'section',
    { class: 'sign-in' },
    h(Mark, null),
    h('h1', { tabIndex: -1 }, `${product.name} console`),
    h('p', null, 'Keys, usage and batches of your account. You sign in at your sign-in provider and return here.'),
    message && h('p', { role: 'alert', class: 'warning' }, message),
    h('button', { type: 'button', class: 'primary', 'aria-disabled': doing.busy, onClick: doing.run }, 'Sign in'),
    h('p', { class: 'quiet' }, h('a', { href: docsUrl }, 'Documentation')),
  );
}

/** While there is a token for it. A slow API keeps no one from signing out. */
function endConsoleKey({ consoleKey }: Trial): Promise<void> {
  const waited = new Promise<void>((resolve) => setTimeout(resolve, signOutWaitsMs));
  return Promise.race([consoleKey.revoke({ endsRequests: true }), waited]);
}

const signOutWaitsMs = 2_000;

function useSession(session: Session): SessionState {
  const [state, setState] = useState(session.state());
  useEffect(() => {
    setState(session.state());
    return session.follow(() => setState(session.state()));
  }, [session]);
  return state;
}

/** What the service says of the account: only it knows how the tokens of this provider are read. */
function useOwnAccount(api: Api, isSignedIn: boolean): LoadState<OwnAccount | undefined> {
  return useLoaded(
    async (signal) => (isSignedIn ? api.call<OwnAccount>('/v1/account', { signal }) : undefined),
    [isSignedIn],
  );
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

/** The fragment identifies the page, so the skip link must not change it. */
function skip(event: Event, main: HTMLElement | null): void {
  event.preventDefault();
  main?.focus();
}
