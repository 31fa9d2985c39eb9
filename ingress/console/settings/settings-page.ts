import { h } from 'preact';
import type { RawPlanFile } from '../../../shared/plan-file/plan-file-schema.ts';
import type { ServiceSettings } from '../../routes/settings.ts';
import type { Api } from '../api/api.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { useLoaded, usePolled } from '../page/use-loaded.ts';
import { PlanFileState } from './plan-file-state.ts';
import { BackendTable, ModelTable, OtherSettings, PlanTable } from './plan-file-tables.ts';
import { ProcessTable } from './process-table.ts';

/** The plan file in force, and which process works with which. */
export function SettingsPage({ api }: { api: Api }) {
  const loaded = useLoaded((signal) => api.call<ServiceSettings>('/admin/settings', { signal }), []);
  usePolled(loaded);
  return [
    h('h1', { tabIndex: -1 }, 'Settings'),
    h(LoadedView<ServiceSettings>, {
      loaded,
      what: 'the settings',
      children(settings) {
        const planFile = settings.plan_file as RawPlanFile; // it has the shape of the plan file
        return [
          h(PlanFileState, { settings }),
          h(ProcessTable, { settings }),
          h(PlanTable, { planFile }),
          h(ModelTable, { planFile }),
          h(BackendTable, { planFile }),
          h(OtherSettings, { planFile }),
        ];
      },
    }),
  ];
}
