import { defineTool } from "eve/tools";
import { acts } from "../lib/shop";

export default defineTool(acts("book", "Do something that the outside knows of."));
