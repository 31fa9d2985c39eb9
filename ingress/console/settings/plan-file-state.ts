import { h } from 'preact';
import type { ServiceSettings } from '../../routes/settings.ts';

/** The generation in force at this ingress, and why a later one is not. */
export function PlanFileState({ settings: { generation, next, issues } }: { settings: ServiceSettings }) {
  return h(
    'section',
    { 'aria-labelledby': 'plan-file' },
    h('h2', { id: 'plan-file' }, 'Plan file'),
    h('p', null, 'In force: generation ', h('code', null, generation), '.'),
    next !== null &&
      h(
        'p',
        { class: 'notice', role: 'status' },
        'A later plan file, generation ',
        h('code', null, next.generation),
        `, is not in force yet. It waits for a worker of: ${next.waits_for.join(', ')}.`,
      ),
    issues.length > 0 &&
      h(
        'div',
        { class: 'failure', role: 'alert' },
        h('p', null, 'The plan file was changed and is invalid, so the earlier one stays in force:'),
        h(
          'ul',
          null,
          issues.map((issue) => h('li', { key: issue }, issue)),
        ),
      ),
  );
}
