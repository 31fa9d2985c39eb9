import { h } from 'preact';
import type { Api } from '../api/api.ts';
import { UsageReportView } from '../usage/usage-report.ts';

/** The usage of all accounts: at first those that have used most. */
export function AllUsagePage({ api }: { api: Api }) {
  return [
    h('h1', { tabIndex: -1 }, 'Usage of all accounts'),
    h(UsageReportView, {
      api,
      path: '/admin/usage',
      offered: ['account', 'day', 'model', 'key', 'endpoint'],
      usual: ['account'],
    }),
  ];
}
