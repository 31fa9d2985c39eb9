import { h } from 'preact';
import type { LimitsInUse, Quota } from '../../api/response-schemas.ts';
import { LoadedView } from '../page/loaded-view.ts';
import type { Loaded } from '../page/use-loaded.ts';
import { LimitMeters } from '../panels/limit-meters.ts';
import { MonthCard } from '../panels/month-card.ts';
import { Panel } from '../panels/panel.ts';

type Props = { quota: Loaded<Quota>; limits: Loaded<LimitsInUse> };

/** The month of an account, and its limits in use now, as its own overview shows them. */
export function AccountPanels({ quota, limits }: Props) {
  return h(
    'div',
    { class: 'panels' },
    h(
      Panel,
      { title: 'This month' },
      h(LoadedView<Quota>, {
        loaded: quota,
        what: 'its quota',
        children: (value) => h(MonthCard, { quota: value }),
      }),
    ),
    h(
      Panel,
      { title: 'Limits in use now' },
      h(LoadedView<LimitsInUse>, {
        loaded: limits,
        what: 'its limits',
        children: (value) => h(LimitMeters, { limits: value }),
      }),
    ),
  );
}
