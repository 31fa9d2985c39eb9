import { addCopyButtons, addCopyPage } from './elements.ts';
import { addLanguageTabs } from './language-tabs.ts';
import { addSearch } from './search-box.ts';

addLanguageTabs();
addCopyButtons();
addCopyPage();
addSearch();
