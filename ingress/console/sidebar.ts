import { h } from 'preact';
import { useContext, useEffect, useState } from 'preact/hooks';
import { paletteKeys } from './command-palette.ts';
import { isForOperators, type NavigationItem, navigationItems, type Route } from './page/console-route.ts';
import { Icon } from './page/icons.ts';
import { Mark, ProductContext } from './page/product.ts';

type Props = {
  account: string;
  isOperator: boolean;
  route: Route;
  docsUrl: string;
  openPalette: () => void;
  signOut: () => void;
};

/** The navigation: beside the page, and on a phone above it, behind a button. */
export function Sidebar({ account, isOperator, route, docsUrl, openPalette, signOut }: Props) {
  const [isOpen, setOpen] = useState(false);
  const { name, supportUrl } = useContext(ProductContext);
  useEffect(() => setOpen(false), [route]);
  const items = navigationItems({ isOperator });
  const [own, operators] = [items.filter(({ page }) => !isForOperators(page)), items.filter(isOperatorItem)];
  return h(
    'header',
    { class: 'side' },
    h(
      'div',
      { class: 'side-head' },
      h('a', { class: 'brand', href: '#overview' }, h(Mark, null), name),
      h(
        'button',
        {
          type: 'button',
          class: 'menu-button',
          'aria-expanded': isOpen,
          'aria-controls': 'menu',
          onClick: () => setOpen(!isOpen),
        },
        h(Icon, { name: 'menu' }),
        'Menu',
      ),
    ),
    h(
      'div',
      { id: 'menu', class: isOpen ? 'menu open' : 'menu' },
      h(
        'button',
        { type: 'button', class: 'find-button', onClick: openPalette },
        h(Icon, { name: 'search' }),
        h('span', null, isOperator ? 'Find or go to' : 'Go to'),
        h('kbd', { 'aria-hidden': true }, paletteKeys(navigator.platform)),
      ),
      h(
        'nav',
        { 'aria-label': 'Pages' },
        h(ItemList, { items: own, route }),
        operators.length > 0 && [
          h('p', { class: 'group', id: 'operator-pages' }, 'Operators'),
          h(ItemList, { items: operators, route, labelledBy: 'operator-pages' }),
        ],
      ),
      h(
        'div',
        { class: 'who' },
        h('a', { class: 'item', href: docsUrl }, h(Icon, { name: 'book' }), 'Documentation'),
        supportUrl !== undefined &&
          h('a', { class: 'item', href: supportUrl }, h(Icon, { name: 'support' }), 'Support'),
        h('span', { class: 'account', title: 'Your account' }, account),
        h('button', { type: 'button', onClick: signOut }, 'Sign out'),
      ),
    ),
  );
}

function isOperatorItem({ page }: NavigationItem): boolean {
  return isForOperators(page);
}

type ListProps = { items: readonly NavigationItem[]; route: Route; labelledBy?: string };

function ItemList({ items, route, labelledBy }: ListProps) {
  return h(
    'ul',
    labelledBy === undefined ? null : { 'aria-labelledby': labelledBy },
    items.map(({ page, title, icon }) =>
      h(
        'li',
        { key: page },
        h(
          'a',
          { class: 'item', href: `#${page}`, ...(page === route.page && { 'aria-current': 'page' }) },
          h(Icon, { name: icon }),
          title,
        ),
      ),
    ),
  );
}
