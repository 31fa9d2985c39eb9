import { h } from 'preact';
import { type PageName, pages, type Route } from '../page/route.ts';
import type { SessionState } from '../session/session.ts';

type Props = { state: SessionState; route: Route; docsUrl: string; signOut: () => void };

export function Header({ state, route, docsUrl, signOut }: Props) {
  const isSignedIn = state.name === 'signed in';
  const shown = (Object.keys(pages) as PageName[]).filter(
    (page) => page !== 'operators' || (isSignedIn && state.isOperator),
  );
  return h(
    'header',
    { class: 'bar' },
    h('span', { class: 'brand' }, 'Inference'),
    isSignedIn &&
      h(
        'nav',
        { 'aria-label': 'Pages' },
        h(
          'ul',
          null,
          shown.map((page) =>
            h(
              'li',
              { key: page },
              h('a', { href: `#${page}`, ...(page === route.page && { 'aria-current': 'page' }) }, pages[page]),
            ),
          ),
        ),
      ),
    h(
      'div',
      { class: 'who' },
      h('a', { href: docsUrl }, 'Documentation'),
      isSignedIn && h('span', { class: 'account', title: 'Your account' }, `user:${state.account}`),
      isSignedIn && h('button', { type: 'button', onClick: signOut }, 'Sign out'),
    ),
  );
}
