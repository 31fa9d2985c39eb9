import { element } from './elements.ts';

type Tab = { name: string; button: HTMLButtonElement; panel: HTMLElement };
type TabGroup = { tabs: readonly Tab[]; show(name: string): void };

/** Makes tabs of examples in several languages. A choice applies to all of them, and is remembered. */
export function addLanguageTabs(): void {
  const groups: TabGroup[] = [];
  const choose = (name: string, chosen: HTMLElement) => {
    rememberLanguage(name);
    const before = chosen.getBoundingClientRect().top;
    for (const group of groups) group.show(name);
    scrollBy(0, chosen.getBoundingClientRect().top - before); // blocks above may have another height now
  };
  for (const [index, block] of document.querySelectorAll<HTMLElement>('.variants').entries()) {
    groups.push(makeTabs(block, { index, choose }));
  }
  const remembered = rememberedLanguage();
  for (const { tabs, show } of groups) show(remembered ?? tabs[0]?.name ?? '');
}

type TabOptions = { index: number; choose: (name: string, chosen: HTMLElement) => void };

function makeTabs(block: HTMLElement, { index, choose }: TabOptions): TabGroup {
  const tabs = [...block.querySelectorAll<HTMLElement>('.variant')].map((panel, number) => {
    const name = panel.dataset.name ?? '';
    panel.id = `variant-${index}-${number}`;
    const button = element('button', { type: 'button', role: 'tab', id: `tab-${index}-${number}` }, name);
    button.setAttribute('aria-controls', panel.id);
    panel.setAttribute('role', 'tabpanel');
    panel.setAttribute('aria-labelledby', button.id);
    panel.querySelector('.variant-name')?.remove();
    button.addEventListener('click', () => choose(name, button));
    return { name, button, panel };
  });
  const list = element('div', { role: 'tablist', 'aria-label': 'Language' }, ...tabs.map(({ button }) => button));
  list.addEventListener('keydown', (event) => {
    const next = tabAfter(event.key, tabs);
    if (next === undefined) return;
    event.preventDefault();
    choose(next.name, next.button);
    next.button.focus();
  });
  block.prepend(list);
  return { tabs, show: (name) => showTab(tabs, name) };
}

/** The tab that a key leads to from the one with the focus. */
function tabAfter(key: string, tabs: readonly Tab[]): Tab | undefined {
  const at = tabs.findIndex(({ button }) => button === document.activeElement);
  const steps: Readonly<Record<string, number>> = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 };
  const index = steps[key];
  return index === undefined ? undefined : tabs.at(index % tabs.length);
}

/** Shows the first tab if none has this name. */
function showTab(tabs: readonly Tab[], name: string): void {
  const shown = tabs.find((tab) => tab.name === name) ?? tabs[0];
  for (const { button, panel } of tabs) {
    const isShown = panel === shown?.panel;
    button.setAttribute('aria-selected', String(isShown));
    button.tabIndex = isShown ? 0 : -1;
    panel.hidden = !isShown;
  }
}

const key = 'documentation-language';

/** The language that the reader has chosen on any page, if the browser keeps it. */
function rememberedLanguage(): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null; // the browser does not allow it
  }
}

function rememberLanguage(name: string): void {
  try {
    localStorage.setItem(key, name);
  } catch {
    // The choice is for this page only.
  }
}
