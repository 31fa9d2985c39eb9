import { isForOperators, type PageName, pages } from '../page/route.ts';
import type { IconName } from './icons.ts';

/** A page in the navigation. */
export type NavigationItem = { page: PageName; title: string; icon: IconName };

const icons: Partial<Record<PageName, IconName>> = {
  overview: 'overview',
  requests: 'requests',
  batches: 'batches',
  usage: 'usage',
  keys: 'keys',
  webhooks: 'webhooks',
  'try-it': 'try-it',
  fleet: 'fleet',
  find: 'search',
  accounts: 'accounts',
  'all-usage': 'usage',
  audit: 'audit',
  'top-up-codes': 'codes',
  settings: 'settings',
};

/** The pages with a place in the navigation, in its order: first those of every user. */
export function navigationItems({ isOperator }: { isOperator: boolean }): NavigationItem[] {
  return (Object.keys(pages) as PageName[]).flatMap((page) => {
    const icon = icons[page];
    if (icon === undefined || (isForOperators(page) && !isOperator)) return [];
    return [{ page, title: pages[page], icon }];
  });
}
